#include "spec/token_batch.h"

#include <fmt/ranges.h>

#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "spec/nearby.h"

namespace tessera {

int64_t sequences_of(int64_t tokens, int64_t seq_len, const std::string& what) {
  TESSERA_CHECK(seq_len > 0, "a sequence of {} tokens", seq_len);
  require_config(tokens > 0, "{} is {} tokens: a step needs at least one sequence", what, tokens);
  if (tokens % seq_len == 0) return tokens / seq_len;
  std::vector<std::string> near;
  for (const int64_t whole : nearby_multiples(tokens, seq_len)) {
    near.push_back(fmt::format("{}tok ({})", whole, count_of(whole / seq_len, "sequence")));
  }
  // 4M people often mean as 4 x 2^20.
  const int64_t millions = tokens / 1'000'000;
  const bool is_round = tokens % 1'000'000 == 0 && millions < (int64_t{1} << 40);
  if (is_round && (millions << 20) % seq_len == 0) {
    const int64_t sequences = (millions << 20) / seq_len;
    near.push_back(fmt::format("{}Mitok ({})", millions, count_of(sequences, "sequence")));
  }
  throw ConfigError(
      fmt::format("{} is {} tokens, which are no whole number of sequences of {} tokens: use {}",
                  what, with_thousands(tokens), with_thousands(seq_len), fmt::join(near, " or ")));
}

}  // namespace tessera

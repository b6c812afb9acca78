#include "data/tokenizer/pattern/regex.h"

#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "data/tokenizer/pattern/pcre2_code.h"
#include "data/tokenizer/pattern/regex_translation.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

// For one match. The slowest pattern in use needs a few steps for a character.
constexpr uint32_t kMostSteps = 50'000'000;
constexpr uint32_t kMostHeapKib = 64 * 1024;
constexpr size_t kLongestPattern = 16 * 1024;

struct ContextDeleter {
  void operator()(pcre2_match_context* context) const noexcept {
    pcre2_match_context_free(context);
  }
};
using MatchContext = std::unique_ptr<pcre2_match_context, ContextDeleter>;

}  // namespace

struct Regex::Compiled {
  Pcre2Code code;
  MatchContext limits;
};

Regex::Regex(std::string pattern) : pattern_(std::move(pattern)) {
  require_config(pattern_.size() <= kLongestPattern, "pattern {}: {} bytes, more than {}",
                 in_quotes(pattern_), pattern_.size(), kLongestPattern);
  require_config(valid_prefix(pattern_) == pattern_.size(), "pattern {}: it is not UTF-8",
                 in_quotes(pattern_));
  auto compiled = std::make_unique<Compiled>();
  compiled->code = compile_pattern(pattern_, pcre2_pattern(pattern_));
  compiled->limits.reset(pcre2_match_context_create(nullptr));
  TESSERA_CHECK(compiled->limits != nullptr, "no memory for a pattern");
  pcre2_set_match_limit(compiled->limits.get(), kMostSteps);
  pcre2_set_heap_limit(compiled->limits.get(), kMostHeapKib);
  compiled_ = std::move(compiled);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::find(std::string_view text, std::vector<Part>& parts) const {
  parts.clear();
  const Pcre2MatchData data(pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  TESSERA_CHECK(data != nullptr, "no memory for a match");
  const auto push = [&](size_t begin, size_t end, bool is_match) {
    parts.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), is_match});
  };
  const auto match = [&](size_t at, uint32_t options) {
    return pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                       text.size(), at, PCRE2_NO_UTF_CHECK | options, data.get(),
                       compiled_->limits.get());
  };
  size_t at = 0;
  size_t covered = 0;
  bool any = false;
  while (at <= text.size()) {
    int found = match(at, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(at, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    require(found > 0, "pattern {}: at byte {} of the text: {}", in_quotes(pattern_), at,
            pcre2_message(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    if (range[0] == range[1] && any && range[1] == covered) {
      // An empty match right after a match is none.
      at += at < text.size() ? code_point_at(text, at).bytes : 1;
      continue;
    }
    if (range[0] > covered) push(covered, range[0], false);
    push(range[0], range[1], true);
    at = covered = range[1];
    any = true;
  }
  if (covered < text.size()) push(covered, text.size(), false);
}

}  // namespace tessera

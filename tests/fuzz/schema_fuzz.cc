// A JSON schema for answers: compiled, then a text is written with whatever it allows.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "fuzz_target.h"
#include "serve/grammar/grammar.h"

namespace {

using namespace tessera;
using namespace tessera::serve;

constexpr int32_t kEnd = 256;
constexpr int kPatience = 40, kMostTokens = 400;

// Tokens of the mask; first those that close something, where the text is long enough.
int32_t choose(const std::vector<uint32_t>& mask, bool soon, uint32_t dice) {
  std::vector<int32_t> allowed;
  for (int32_t token = 0; token <= kEnd; ++token) {
    if ((mask[token / 32] >> (token % 32) & 1) != 0) allowed.push_back(token);
  }
  fuzz::expect(!allowed.empty());
  if (soon) {
    for (const int32_t closing : {kEnd, int32_t{'}'}, int32_t{']'}, int32_t{'"'}}) {
      if (std::binary_search(allowed.begin(), allowed.end(), closing)) return closing;
    }
  }
  return allowed[dice % allowed.size()];
}

void write_a_text(TokenGrammar& grammar, uint32_t dice) {
  std::string text;
  for (int i = 0; i < kMostTokens; ++i) {
    std::vector<uint32_t> mask(kEnd / 32 + 1);
    grammar.allow(mask);
    dice = dice * 1'664'525 + 1'013'904'223;
    const int32_t token = choose(mask, i >= kPatience, dice >> 8);
    if (token == kEnd) {
      // What may end is JSON; where nothing else may come, the text is left as it is.
      mask[kEnd / 32] = 0;
      const bool stuck =
          std::all_of(mask.begin(), mask.end(), [](uint32_t bits) { return bits == 0; });
      fuzz::expect(stuck || nlohmann::json::accept(text));
      return;
    }
    text += static_cast<char>(token);
    grammar.accept(token);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto kBytes = TokenBytes::single_bytes();
  fuzz::read_or_refuse([&] {
    const auto schema = nlohmann::ordered_json::parse(data, data + size, nullptr, false);
    if (schema.is_discarded()) return;
    GrammarLimits limits;
    limits.steps = 200'000;
    limits.states = 4'000;
    limits.edges = 40'000;
    const auto compiled = compile_schema(schema, limits);
    const auto grammar = make_grammar(compiled, kBytes, {kEnd});
    for (uint32_t dice = 0; dice < 3; ++dice) {
      write_a_text(*grammar->clone(), dice + static_cast<uint32_t>(size));
    }
  });
  return 0;
}

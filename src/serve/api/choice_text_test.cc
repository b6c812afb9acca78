#include "serve/api/choice_text.h"

#include <gtest/gtest.h>

namespace tessera::serve {
namespace {

std::string rest_of(const Words& words, const std::vector<int32_t>& tokens, size_t prompt,
                    bool goes_on) {
  ChoiceText text(words, {}, /*keep_tokens=*/false);
  if (goes_on) text.go_on_from(std::span(tokens).first(prompt));
  std::string rest;
  for (size_t i = prompt; i < tokens.size(); ++i) {
    SampledToken token;
    token.token = tokens[i];
    rest += text.push(token).text;
  }
  return rest + text.finish().text;
}

// Tokenizers that write the space before a word as part of it leave out that of the first one.
TEST(ChoiceTextTest, WhatGoesOnFromATextIsItsRest) {
  for (const std::string name : {"llama2", "metaspace", "unigram", "llama3", "gpt2"}) {
    SCOPED_TRACE(name);
    const auto words = words_of_folder(TESSERA_SOURCE_DIR "/tests/data/tokenizers/" + name);
    const std::vector<int32_t> tokens = words->encode("once upon a time there was é", false);
    const std::string whole = rest_of(*words, tokens, 0, false);
    for (size_t prompt = 1; prompt < tokens.size(); ++prompt) {
      const auto decoder = words->decoder();
      std::string before;
      for (size_t i = 0; i < prompt; ++i) before += decoder->push(tokens[i]);
      EXPECT_EQ(before + rest_of(*words, tokens, prompt, true), whole);
    }
  }
}

}  // namespace
}  // namespace tessera::serve

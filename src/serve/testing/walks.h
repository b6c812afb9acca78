// Vocabularies and texts made of what a grammar allows: for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "serve/grammar/grammar.h"

namespace tessera::serve::testing {

struct TestVocabulary {
  std::string name;
  std::shared_ptr<const TokenBytes> tokens;
  int32_t end = 0;  // one more than the last token
  bool has_all_bytes = false;
};
// Single bytes, long tokens of JSON's signs and parts of characters, and the tokenizers of tests.
const std::vector<TestVocabulary>& test_vocabularies(const std::string& source_dir);

enum class Taste : uint8_t { kUniform, kLongest, kRarest };

struct Walk {
  std::string text;
  std::vector<int32_t> tokens;
  bool ended = false;
};

// Which tokens may come.
std::vector<int32_t> allowed_tokens(TokenGrammar& grammar, const TestVocabulary& vocabulary);

// Chooses among allowed tokens until the end; after `patience` tokens those that close something
// first.
Walk random_walk(TokenGrammar& grammar, const TestVocabulary& vocabulary, Taste taste,
                 size_t patience, std::mt19937_64& random);

// Whether `tokens`, and then the end, are allowed one by one.
bool accepts(TokenGrammar& grammar, const TestVocabulary& vocabulary,
             const std::vector<int32_t>& tokens);
// `text` as tokens of the vocabulary, cut at random; empty where there is no way.
std::vector<int32_t> random_tokens(const TestVocabulary& vocabulary, const std::string& text,
                                   std::mt19937_64& random);

}  // namespace tessera::serve::testing

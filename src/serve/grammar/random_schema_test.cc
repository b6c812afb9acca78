// Random schemas: what is made of allowed tokens satisfies them, and what satisfies them is
// allowed.
#include "serve/testing/random_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/error.h"
#include "base/testing/share.h"
#include "serve/grammar/grammar.h"
#include "serve/testing/schema_check.h"
#include "serve/testing/walks.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::ordered_json;
using testing::accepts;
using testing::random_tokens;
using testing::random_walk;
using testing::RandomSchema;
using testing::satisfies;
using testing::Taste;
using testing::test_vocabularies;
using testing::TestVocabulary;
using testing::Walk;

size_t cases(size_t few) { return tessera::testing::tries_all() ? 20 * few : few; }

std::string compact(const Json& json) { return json.dump(-1, ' ', false); }

// Nothing where a random schema contradicts itself: its message is checked.
std::shared_ptr<const CompiledGrammar> compiled_or_refused(const Json& schema) {
  try {
    return compile_schema(schema);
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("no "), std::string::npos) << error.what() << "\n"
                                                                        << schema.dump();
    return nullptr;
  }
}

TEST(RandomSchemaTest, WhateverIsChosenAmongAllowedTokensSatisfiesTheSchema) {
  std::mt19937_64 random(1);
  size_t checked = 0, dead_ends = 0, refused = 0, unfinished = 0;
  const size_t count = cases(150);
  for (size_t i = 0; i < count; ++i) {
    const Json schema = RandomSchema(1000 + i).schema();
    const auto compiled = compiled_or_refused(schema);
    refused += compiled == nullptr ? 1 : 0;
    if (compiled == nullptr) continue;
    for (const TestVocabulary& vocabulary : test_vocabularies(TESSERA_SOURCE_DIR)) {
      for (const Taste taste : {Taste::kUniform, Taste::kLongest, Taste::kRarest}) {
        const auto grammar = make_grammar(compiled, vocabulary.tokens, {vocabulary.end});
        const Walk walk = random_walk(*grammar, vocabulary, taste, random() % 60, random);
        const std::string about = vocabulary.name + "\n" + schema.dump() + "\n" + walk.text;
        if (!walk.ended) {
          ++unfinished;
          continue;
        }
        const Json parsed = Json::parse(walk.text, nullptr, false);
        if (parsed.is_discarded() && !vocabulary.has_all_bytes) {
          ++dead_ends;  // what should come next cannot be written
          continue;
        }
        ASSERT_FALSE(parsed.is_discarded()) << about;
        ASSERT_TRUE(satisfies(schema, parsed, schema)) << about;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 15 * count);
  EXPECT_LT(dead_ends, 6 * count);
  EXPECT_LT(unfinished, 2 * count);
  EXPECT_LT(refused, count / 10);
}

TEST(RandomSchemaTest, DocumentsOfASchemaAreAllowedHoweverTheyAreCut) {
  std::mt19937_64 random(2);
  size_t checked = 0;
  const size_t count = cases(200);
  for (size_t i = 0; i < count; ++i) {
    RandomSchema source(5000 + i);
    const Json schema = source.schema();
    const auto compiled = compiled_or_refused(schema);
    if (compiled == nullptr) continue;
    for (int document = 0; document < 3; ++document) {
      const Json value = source.document(schema);
      if (!satisfies(schema, value, schema)) continue;
      const std::string text = compact(value);
      for (const TestVocabulary& vocabulary : test_vocabularies(TESSERA_SOURCE_DIR)) {
        const std::vector<int32_t> tokens = random_tokens(vocabulary, text, random);
        if (tokens.empty()) continue;  // no way to write it
        const auto grammar = make_grammar(compiled, vocabulary.tokens, {vocabulary.end});
        ASSERT_TRUE(accepts(*grammar, vocabulary, tokens)) << vocabulary.name << "\n"
                                                           << schema.dump() << "\n"
                                                           << text;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 6 * count);
}

TEST(RandomSchemaTest, WhatDoesNotSatisfyASchemaIsNotAllowed) {
  std::mt19937_64 random(3);
  const TestVocabulary& bytes = test_vocabularies(TESSERA_SOURCE_DIR)[0];
  size_t wrong = 0;
  for (size_t i = 0; i < cases(300); ++i) {
    RandomSchema source(9000 + i);
    const Json schema = source.schema();
    const auto compiled = compiled_or_refused(schema);
    if (compiled == nullptr) continue;
    std::string text = compact(source.document(schema));
    const std::string signs = "{}[]\",:0a-n\\ ";
    for (int edit = 0; edit < 8; ++edit) {
      std::string damaged = text;
      const size_t at = random() % damaged.size();
      const char sign = signs[random() % signs.size()];
      switch (random() % 3) {
        case 0:
          damaged.erase(at, 1 + random() % 3);
          break;
        case 1:
          damaged.insert(at, 1, sign);
          break;
        default:
          damaged[at] = sign;
      }
      const Json parsed = Json::parse(damaged, nullptr, false);
      if (!parsed.is_discarded() && satisfies(schema, parsed, schema)) continue;
      const auto grammar = make_grammar(compiled, bytes.tokens, {bytes.end});
      std::vector<int32_t> tokens;
      for (const char c : damaged) tokens.push_back(static_cast<uint8_t>(c));
      ASSERT_FALSE(accepts(*grammar, bytes, tokens)) << schema.dump() << "\n" << damaged;
      ++wrong;
    }
  }
  EXPECT_GT(wrong, 500U);
}

}  // namespace
}  // namespace tessera::serve

// Files that are damaged, or written to do harm: a message, or a tokenizer that works; under the
// sanitizers no byte outside is touched.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/error.h"
#include "base/testing/share.h"
#include "data/testing/json_damage.h"
#include "data/testing/odd_strings.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/stream_decoder.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

const std::string kFolder = TESSERA_SOURCE_DIR "/tests/data/tokenizers/";
constexpr const char* kKinds[] = {"gpt2", "llama3", "qwen2", "llama2", "metaspace", "unigram"};

// A small part of a tokenizer, so that many can be read: those ids that its parts name stay.
Json small_document(const std::string& kind) {
  std::ifstream file(kFolder + kind + "/tokenizer.json");
  Json document = Json::parse(file);
  Json& vocab = document["model"]["vocab"];
  if (vocab.is_array()) {
    vocab.erase(vocab.begin() + 60, vocab.end());
    return document;
  }
  document["model"]["merges"].erase(document["model"]["merges"].begin() + 20,
                                    document["model"]["merges"].end());
  Json few = Json::object();
  for (const auto& [token, id] : vocab.items()) {
    if (id < 340) few[token] = id;
  }
  vocab = std::move(few);
  return document;
}

// Reads a tokenizer and uses it. Every other exception than an Error ends the test.
bool reads(const std::string& text, const std::string& sample) {
  try {
    const Tokenizer tokenizer = Tokenizer::parse(text, "damaged");
    TokenEncoder encoder(tokenizer);
    std::vector<int32_t> ids;
    encoder.encode(sample, true, ids);
    EXPECT_EQ(encoder.encode_with_offsets(sample, true).ids, ids);
    for (const int32_t id : ids) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, tokenizer.vocab_size());
    }
    const std::string decoded = tokenizer.decode(ids, true);
    EXPECT_EQ(valid_prefix(decoded), decoded.size());
    StreamDecoder stream(tokenizer, true);
    for (const int32_t id : ids) (void)stream.push(id);
    (void)stream.finish();
    return true;
  } catch (const Error& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
    return false;
  }
}

TEST(TokenizerDamageTest, ChangedDocumentsAreErrorsOrTokenizers) {
  std::mt19937_64 random(21 + static_cast<uint64_t>(testing::rotation()));
  testing::JsonDamage<Json> damage(random);
  const testing::OddStrings strings(kFolder);
  int num_read = 0, num_refused = 0;
  const int count = testing::tries_all() ? 8'000 : 100;
  for (const std::string kind : kKinds) {
    const Json whole = small_document(kind);
    for (int i = 0; i < count; ++i) {
      // Most of a file is its vocabulary: what says how to use it is changed more often.
      Json document = whole;
      Json model = whole["model"];
      Json vocab = {{"vocab", model["vocab"]}, {"merges", model.value("merges", Json::array())}};
      document.erase("model");
      model.erase("vocab");
      model.erase("merges");
      Json* const places[] = {&document, &document, &document, &model, &vocab};
      for (uint64_t left = random() % 2 + 1; left > 0; --left) damage.apply(*places[random() % 5]);
      if (model.is_object() && vocab.is_object()) model.update(vocab);
      if (document.is_object()) document["model"] = model;
      const std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
      (reads(text, strings.make(static_cast<uint32_t>(random()))) ? num_read : num_refused) += 1;
    }
  }
  EXPECT_GT(num_read, count / 2);
  EXPECT_GT(num_refused, count / 2);
}

TEST(TokenizerDamageTest, ChangedBytesAreErrorsOrTokenizers) {
  std::mt19937_64 random(5);
  const int count = testing::tries_all() ? 4'000 : 80;
  for (const std::string kind : kKinds) {
    const std::string text = small_document(kind).dump();
    for (int i = 0; i < count; ++i) {
      std::string damaged = text;
      for (uint64_t k = random() % 4 + 1; k > 0; --k) {
        const size_t at = random() % 2 == 0 ? random() % damaged.size()
                                            : random() % std::min<size_t>(damaged.size(), 1500);
        damaged[at] = random() % 8 == 0 ? static_cast<char>(random())
                                        : static_cast<char>("\"{}[],:0ae\\ "[random() % 12]);
      }
      if (random() % 16 == 0) damaged.resize(random() % damaged.size());
      (void)reads(damaged, "Hello <s> w\xC3\xB6rld \xE6\x97\xA5 1 <|end|>");
    }
  }
}

TEST(TokenizerDamageTest, ChangedMapsAreErrorsOrTokenizers) {
  std::ifstream file(kFolder + "recorded.json");
  const Json maps = Json::parse(file)["charsmaps"];
  std::mt19937_64 random(17);
  const testing::OddStrings strings(kFolder);
  Json document = small_document("unigram");
  int num_read = 0, num_refused = 0;
  const int count = testing::tries_all() ? 4'000 : 200;
  for (int i = 0; i < count; ++i) {
    std::string map = maps[i % 2 == 0 ? "nfkc" : "clusters"];
    for (uint64_t left = random() % 4 + 1; left > 0; --left) {
      const size_t limit = random() % 2 == 0 ? map.size() : 1500;
      map[random() % limit] = "ABCabc019+/= "[random() % (random() % 8 == 0 ? 13 : 11)];
    }
    document["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", map}};
    (reads(document.dump(), strings.make(static_cast<uint32_t>(random()))) ? num_read
                                                                           : num_refused) += 1;
  }
  EXPECT_GT(num_read, count / 10);
  EXPECT_GT(num_refused, count / 10);
}

TEST(TokenizerDamageTest, DeepAndHungryFilesEndInAMessage) {
  Json document = small_document("llama3");
  document["pre_tokenizer"] = "HERE";
  std::string text = document.dump();
  std::string deep;
  for (int i = 0; i < 20'000; ++i) deep += R"({"type":"Sequence","pretokenizers":[)";
  for (int i = 0; i < 20'000; ++i) deep += "]}";
  text.replace(text.find("\"HERE\""), 6, deep);
  EXPECT_FALSE(reads(text, "a"));
  EXPECT_FALSE(reads(std::string(100'000, '[') + std::string(100'000, ']'), "a"));
  document = small_document("llama3");
  document["model"]["vocab"]["zz"] = 2'000'000'000;
  EXPECT_FALSE(reads(document.dump(), "a"));
  // A pattern that goes back and forth for ever.
  document = small_document("llama3");
  document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a|aa|a?)+$b";
  (void)reads(document.dump(), std::string(3'000, 'a') + "c");
}

}  // namespace
}  // namespace tessera

// What the reference library gave, recorded: the goldens of six kinds of tokenizers, and variants
// of them over odd strings (tools/record_tokenizers.js).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "data/testing/recorded_hash.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/golden.h"
#include "data/tokenizer/stream_decoder.h"
#include "data/tokenizer/tokenizer.h"

namespace tessera {
namespace {

using Json = nlohmann::json;
using testing::RecordedHash;

const std::string kFolder = TESSERA_SOURCE_DIR "/tests/data/tokenizers/";
constexpr const char* kKinds[] = {"gpt2", "llama3", "qwen2", "llama2", "metaspace", "unigram"};

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Json made(const Json& variant, const Json& charsmaps) {
  Json document =
      Json::parse(read_text(kFolder + variant["base"].get<std::string>() + "/tokenizer.json"));
  for (const auto& [pointer, value] : variant["replace"].items()) {
    document[Json::json_pointer(pointer)] = value;
  }
  for (const auto& [pointer, list] : variant["append"].items()) {
    for (const Json& value : list) document[Json::json_pointer(pointer)].push_back(value);
  }
  for (const auto& [pointer, name] : variant["maps"].items()) {
    document[Json::json_pointer(pointer)] = charsmaps[name.get<std::string>()];
  }
  return document;
}

TEST(RecordedTest, EveryGoldenOfEveryKindIsExact) {
  for (const std::string kind : kKinds) {
    const Tokenizer tokenizer = Tokenizer::load(kFolder + kind);
    const GoldenReport report =
        compare_golden(tokenizer, read_text(kFolder + kind + "/golden.json"), kind);
    EXPECT_GE(report.num_texts, 65U) << kind;
    EXPECT_EQ(report.num_values, 3 * report.num_texts) << kind;
    EXPECT_EQ(report.num_different, 0U) << kind << ": " << report.differences.front().text;
  }
}

TEST(RecordedTest, VariantsAreExactInIdsTextAndOffsets) {
  const Json recorded = Json::parse(read_text(kFolder + "recorded.json"));
  const std::vector<std::string> texts = recorded["texts"];
  const size_t chunk = recorded["chunk"];
  size_t num_compared = 0;
  for (const Json& variant : recorded["variants"]) {
    const Tokenizer tokenizer =
        Tokenizer::parse(made(variant, recorded["charsmaps"]).dump(), variant["name"]);
    TokenEncoder encoder(tokenizer);
    for (size_t i = 0; i < texts.size(); i += chunk) {
      RecordedHash hash;
      for (size_t j = i; j < std::min(texts.size(), i + chunk); ++j) {
        std::vector<int32_t> whole;
        std::vector<int32_t> plain;
        encoder.encode(texts[j], true, whole);
        encoder.encode(texts[j], false, plain);
        const Encoding encoding = encoder.encode_with_offsets(texts[j], true);
        ASSERT_EQ(encoding.ids, whole) << variant["name"] << ": " << texts[j];
        hash.add(whole);
        hash.add(plain);
        hash.add(tokenizer.decode(plain, true));
        hash.add(encoding.offsets);
        ++num_compared;
      }
      EXPECT_EQ(hash.text(), variant["hashes"][i / chunk].get<std::string>())
          << variant["name"] << ", texts from " << i << ": " << texts[i];
    }
  }
  EXPECT_GE(num_compared, 120'000U);
}

TEST(RecordedTest, StreamsGiveTheSameTextInWholeCharacters) {
  const std::vector<std::string> texts = Json::parse(read_text(kFolder + "recorded.json"))["texts"];
  for (const std::string kind : kKinds) {
    const Tokenizer tokenizer = Tokenizer::load(kFolder + kind);
    TokenEncoder encoder(tokenizer);
    for (size_t i = 0; i < texts.size(); i += 7) {
      std::vector<int32_t> ids;
      encoder.encode(texts[i], true, ids);
      StreamDecoder stream(tokenizer, true);
      std::string streamed;
      for (const int32_t id : ids) {
        const std::string part = stream.push(id);
        ASSERT_TRUE(Json(part).dump(-1, ' ', false, Json::error_handler_t::strict).size() > 1);
        streamed += part;
      }
      streamed += stream.finish();
      ASSERT_EQ(streamed, tokenizer.decode(ids, true)) << kind << ": " << texts[i];
    }
  }
}

TEST(RecordedTest, BothFormsOfMergesAreTheSame) {
  Json document = Json::parse(read_text(kFolder + "metaspace/tokenizer.json"));
  Json& merges = document["model"]["merges"];
  ASSERT_TRUE(merges[0].is_array());
  for (Json& merge : merges) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  merges.insert(merges.begin(), "#version: 0.2");
  const Tokenizer tokenizer = Tokenizer::parse(document.dump(), "legacy");
  const GoldenReport report =
      compare_golden(tokenizer, read_text(kFolder + "metaspace/golden.json"), "golden.json");
  EXPECT_EQ(report.num_different, 0U);
}

TEST(RecordedTest, AComparisonFindsAPlantedDifference) {
  const Tokenizer tokenizer = Tokenizer::load(kFolder + "gpt2");
  Json golden = Json::parse(read_text(kFolder + "gpt2/golden.json"));
  golden[5]["ids"].push_back(7);
  golden[6]["decoded"] = "something else";
  const GoldenReport report = compare_golden(tokenizer, golden.dump(), "golden.json");
  ASSERT_EQ(report.num_different, 2U);
  EXPECT_EQ(report.differences[0].entry, 5U);
  EXPECT_EQ(report.differences[0].field, "ids");
  EXPECT_EQ(report.differences[1].field, "decoded");
}

}  // namespace
}  // namespace tessera

// What the reference library gave, recorded: the goldens of six kinds of tokenizers, and variants
// of them over odd strings (tools/record_tokenizers.js).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/share.h"
#include "data/synth.h"
#include "data/testing/recorded_hash.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/golden.h"
#include "data/tokenizer/stream_decoder.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_file.h"
#include "data/tokenizer/train_bpe.h"

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

// The hash of what tools/recorded_hash.js looks at.
std::string hash_of(const Tokenizer& tokenizer, std::span<const std::string> texts) {
  TokenEncoder encoder(tokenizer);
  RecordedHash hash;
  for (const std::string& text : texts) {
    std::vector<int32_t> whole, plain;
    encoder.encode(text, true, whole);
    encoder.encode(text, false, plain);
    const Encoding encoding = encoder.encode_with_offsets(text, true);
    EXPECT_EQ(encoding.ids, whole) << text;
    hash.add(whole);
    hash.add(plain);
    hash.add(tokenizer.decode(plain, true));
    hash.add(encoding.offsets);
  }
  return hash.text();
}

TEST(RecordedTest, VariantsAreExactInIdsTextAndOffsets) {
  const Json recorded = Json::parse(read_text(kFolder + "recorded.json"));
  const std::vector<std::string> texts = recorded["texts"];
  const size_t chunk = recorded["chunk"];
  // A third of the texts in each commit.
  const size_t shares = testing::tries_all() ? 1 : 3;
  const size_t first = static_cast<size_t>(testing::rotation()) % shares * chunk;
  size_t num_compared = 0;
  for (const Json& variant : recorded["variants"]) {
    const Tokenizer tokenizer =
        Tokenizer::parse(made(variant, recorded["charsmaps"]).dump(), variant["name"]);
    for (size_t i = first; i < texts.size(); i += shares * chunk) {
      const std::span<const std::string> some(&texts[i], std::min(chunk, texts.size() - i));
      EXPECT_EQ(hash_of(tokenizer, some), variant["hashes"][i / chunk].get<std::string>())
          << variant["name"] << ", texts from " << i << ": " << texts[i];
      num_compared += some.size();
    }
  }
  EXPECT_GE(num_compared, 120'000U / shares);
}

// A file that `tessera data tokenizer train` writes means the same to the reference library
// (tools/record_trained.js), for every way to split.
TEST(RecordedTest, TokenizersTrainedHereAreExact) {
  const std::vector<std::string> texts = Json::parse(read_text(kFolder + "recorded.json"))["texts"];
  const Json recorded = Json::parse(read_text(kFolder + "trained.json"));
  const size_t chunk = recorded["chunk"];
  std::string corpus = synth_stories(recorded["seed"], recorded["bytes"]);
  for (size_t i = 0; i < texts.size(); ++i) corpus += (i == 0 ? "" : "\n") + texts[i];
  const std::map<std::string, KnownSplit> splits = {
      {"gpt2", KnownSplit::kGpt2}, {"llama3", KnownSplit::kLlama3}, {"qwen2", KnownSplit::kQwen2}};
  ASSERT_EQ(recorded["trained"].size(), splits.size());
  for (const Json& trained : recorded["trained"]) {
    SCOPED_TRACE(trained["split"].get<std::string>());
    TrainBpeOptions options;
    options.vocab_size = recorded["vocab"];
    options.split = splits.at(trained["split"]);
    PieceCounts counts(options.split);
    counts.add(corpus);
    const std::string text = tokenizer_json(train_bpe(options, counts), options.split);
    RecordedHash file;
    file.add(text);
    ASSERT_EQ(file.text(), trained["file"].get<std::string>())
        << "the file is another one: record again, and see whether the ids stay the reference's";
    const Tokenizer tokenizer = Tokenizer::parse(text, "trained");
    for (size_t i = 0; i < texts.size(); i += chunk) {
      const std::span<const std::string> some(&texts[i], std::min(chunk, texts.size() - i));
      EXPECT_EQ(hash_of(tokenizer, some), trained["hashes"][i / chunk].get<std::string>())
          << "texts from " << i << ": " << texts[i];
    }
  }
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

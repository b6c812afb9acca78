// 100,000 odd strings, a tenth of them with each commit: ids and text are those of the reference
// library (recorded by tools/record_fuzz.js), and whatever the bytes are, text that comes back is
// UTF-8.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/testing/share.h"
#include "data/testing/odd_strings.h"
#include "data/testing/recorded_hash.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/stream_decoder.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

using testing::OddStrings;
using testing::RecordedHash;
using testing::Share;
using testing::share_of;

const std::string kFolder = TESSERA_SOURCE_DIR "/tests/data/tokenizers/";
constexpr const char* kKinds[] = {"gpt2", "llama3", "qwen2", "llama2", "metaspace", "unigram"};

nlohmann::json recorded() {
  std::ifstream file(kFolder + "fuzz.json");
  return nlohmann::json::parse(file);
}

std::string lossy(const std::string& bytes) {
  std::string text;
  append_lossy(bytes, text);
  return text;
}

bool is_utf8(const std::string& text) { return valid_prefix(text) == text.size(); }

std::vector<int32_t> ids_of(TokenEncoder& encoder, const std::string& text, bool add_special) {
  std::vector<int32_t> ids;
  encoder.encode(text, add_special, ids);
  return ids;
}

// Calls `each` with the strings of a chunk.
template <typename Each>
void for_chunk(const OddStrings& strings, int64_t number, int64_t chunk, const Each& each) {
  for (int64_t i = number * chunk; i < (number + 1) * chunk; ++i) {
    each(strings.make(static_cast<uint32_t>(i)));
  }
}

TEST(FuzzTest, StringsAreThoseOfTheRecordAndSoIsWhatIsNotUtf8) {
  const nlohmann::json record = recorded();
  const int64_t chunk = record["chunk"];
  const OddStrings strings(kFolder);
  const Share share = share_of(std::ssize(record["texts"]), 10);
  for (int64_t number = share.begin; number < share.end; ++number) {
    RecordedHash hash;
    for_chunk(strings, number, chunk, [&](const std::string& bytes) { hash.add(lossy(bytes)); });
    EXPECT_EQ(hash.text(), record["texts"][static_cast<size_t>(number)].get<std::string>())
        << "chunk " << number;
  }
}

TEST(FuzzTest, IdsAndTextAreThoseOfTheLibrary) {
  const nlohmann::json record = recorded();
  const int64_t chunk = record["chunk"];
  ASSERT_EQ(record["count"], 100'000);
  const OddStrings strings(kFolder);
  for (const std::string kind : kKinds) {
    const Tokenizer tokenizer = Tokenizer::load(kFolder + kind);
    TokenEncoder encoder(tokenizer);
    const Share share = share_of(std::ssize(record[kind]), 20);
    for (int64_t number = share.begin; number < share.end; ++number) {
      RecordedHash hash;
      for_chunk(strings, number, chunk, [&](const std::string& bytes) {
        const std::vector<int32_t> whole = ids_of(encoder, bytes, true);
        const std::vector<int32_t> plain = ids_of(encoder, bytes, false);
        hash.add(whole);
        hash.add(plain);
        hash.add(tokenizer.decode(plain, true));
        hash.add(tokenizer.decode(whole, false));
      });
      EXPECT_EQ(hash.text(), record[kind][static_cast<size_t>(number)].get<std::string>())
          << kind << ", chunk " << number << ": 'node tools/record_fuzz.js FOLDER " << kind << " "
          << number << "' shows the strings";
    }
  }
}

TEST(FuzzTest, WhatIsEncodedIsDecodedAndStreamsNeverBreakACharacter) {
  const OddStrings strings(kFolder);
  for (const std::string kind : kKinds) {
    const Tokenizer tokenizer = Tokenizer::load(kFolder + kind);
    TokenEncoder encoder(tokenizer);
    const Share share = share_of(20'000, 20);
    for (int64_t i = share.begin; i < share.end; ++i) {
      const std::string bytes = strings.make(static_cast<uint32_t>(i));
      const std::string text = lossy(bytes);
      ASSERT_TRUE(is_utf8(text)) << i;
      const std::vector<int32_t> ids = ids_of(encoder, bytes, true);
      ASSERT_EQ(ids, ids_of(encoder, text, true)) << kind << ", string " << i;
      const std::string decoded = tokenizer.decode(ids, false);
      if (kind == "gpt2") {
        ASSERT_EQ(tokenizer.decode(ids_of(encoder, bytes, false), false), text) << "string " << i;
      }
      StreamDecoder stream(tokenizer, false);
      std::string streamed;
      for (const int32_t id : ids) {
        const std::string part = stream.push(id);
        ASSERT_TRUE(is_utf8(part)) << kind << ", string " << i;
        streamed += part;
      }
      ASSERT_EQ(streamed + stream.finish(), decoded) << kind << ", string " << i;
    }
  }
}

// Ids that no text gives: bytes in any order, tokens that are special, numbers that are no ids.
TEST(FuzzTest, AnyIdsGiveUtf8) {
  for (const std::string kind : kKinds) {
    const Tokenizer tokenizer = Tokenizer::load(kFolder + kind);
    uint32_t state = 7;
    for (int i = 0; i < (testing::tries_all() ? 20'000 : 1'000); ++i) {
      std::vector<int32_t> ids;
      for (uint32_t left = state % 30 + 1; left > 0; --left) {
        state = state * 1664525 + 1013904223;
        const auto limit = static_cast<uint32_t>(tokenizer.vocab_size() + 3);
        ids.push_back(static_cast<int32_t>((state >> 8) % (left % 2 == 0 ? 300 : limit)) - 1);
      }
      ASSERT_TRUE(is_utf8(tokenizer.decode(ids, i % 2 == 0)));
      StreamDecoder stream(tokenizer, i % 2 == 0);
      for (const int32_t id : ids) ASSERT_TRUE(is_utf8(stream.push(id))) << kind;
      ASSERT_TRUE(is_utf8(stream.finish())) << kind;
    }
  }
}

}  // namespace
}  // namespace tessera

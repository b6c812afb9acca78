#include "data/tokenizer/steps/charsmap.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "base/testing/share.h"
#include "base/text/base64.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

using testing::message_of;

std::string u32_text(size_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string map_of(const std::vector<uint32_t>& units, std::string_view replacements) {
  std::string bytes = u32_text(4 * units.size());
  for (const uint32_t unit : units) bytes += u32_text(unit);
  return bytes.append(replacements);
}

// The key "a" with its replacement at byte `at`: the root's base is 0x60, so 'a' is unit 1, whose
// base is 2, where the value is.
std::vector<uint32_t> one_key(uint32_t at) {
  std::vector<uint32_t> units(128);
  units[0] = 0x60 << 10;
  units[1] = 3U << 10 | 1U << 8 | 'a';
  units[2] = 1U << 31 | at;
  return units;
}

// Maps that tools/charsmap.js made and the reference library read.
std::string recorded_map(const std::string& name) {
  std::ifstream file(TESSERA_SOURCE_DIR "/tests/data/tokenizers/recorded.json");
  const nlohmann::json recorded = nlohmann::json::parse(file);
  return bytes_of_base64(recorded["charsmaps"][name].get<std::string>()).value();
}

std::string refusal(const std::string& bytes) {
  return message_of([&] { Charsmap{bytes}; });
}

TEST(CharsmapTest, FindsTheShortestKeyThatAPartBeginsWith) {
  const Charsmap one(map_of(one_key(3), std::string("xy\0"
                                                    "b\0",
                                                    5)));
  EXPECT_EQ(one.find("a"), "b");
  EXPECT_EQ(one.find("abcde"), "b");
  EXPECT_FALSE(one.find("b").has_value());
  EXPECT_FALSE(one.find("").has_value());
  EXPECT_FALSE(one.find(std::string(1, '\0')).has_value());
  const Charsmap many(recorded_map("nfkc"));
  EXPECT_EQ(many.find("\xEF\xBC\xA1"), "A");          // a wide one
  EXPECT_EQ(many.find("\xEF\xBC\xA1\xCC\x81"), "A");  // and an accent, which goes
  EXPECT_EQ(many.find("e\xCC\x81"), "\xC3\xA9");
  EXPECT_EQ(many.find("\x01"), "");
  EXPECT_EQ(many.find("\xEF\xB7\xBA"),
            "\xD8\xB5\xD9\x84\xD9\x89 \xD8\xA7\xD9\x84\xD9\x84\xD9\x87 "
            "\xD8\xB9\xD9\x84\xD9\x8A\xD9\x87 \xD9\x88\xD8\xB3\xD9\x84\xD9\x85");
  EXPECT_FALSE(many.find("e").has_value());
}

TEST(CharsmapTest, NamesWhatIsWrong) {
  EXPECT_EQ(refusal("abc"), "the map has 3 bytes, less than the 4 of its size");
  EXPECT_EQ(refusal(u32_text(8) + "abcd"), "the trie should have 8 bytes, but 4 follow its size");
  EXPECT_EQ(refusal(u32_text(3) + "abcd"), "the trie should have 3 bytes, but 4 follow its size");
  EXPECT_EQ(refusal(u32_text(0)), "the trie should have 0 bytes, but 0 follow its size");
  EXPECT_EQ(refusal(u32_text(0xFFFFFFFC)),
            "the trie should have 4294967292 bytes, but 0 follow its size");
  EXPECT_EQ(refusal(map_of(one_key(0), "b\xFF")), "byte 1 of the replacements is not UTF-8");
  EXPECT_EQ(refusal(map_of(one_key(5), "b")),
            "unit 1 of the trie names byte 5 of 1 bytes of replacements");
  EXPECT_EQ(refusal(map_of(one_key(1), "\xC3\xA9")),
            "unit 1 of the trie names byte 1 of the replacements, inside a character");
  std::vector<uint32_t> units = one_key(0);
  units[1] = 300U << 10 | 1U << 8 | 'a';
  EXPECT_EQ(refusal(map_of(units, "b")), "unit 1 of the trie points at unit 301 of 128");
  units[1] = 1U << 10 | 1U << 9 | 'a';
  EXPECT_EQ(refusal(map_of(units, "b")), "unit 1 of the trie points at unit 257 of 128");
  EXPECT_EQ(refusal(std::string((size_t{4} << 20) + 1, '\0')),
            "the map has 4194305 bytes, more than the limit of 4194304");
  EXPECT_EQ(refusal(map_of(one_key(0), "b")), "no error");
}

// Loops in the trie, keys in odd places: whatever is accepted answers every part.
TEST(CharsmapTest, DamagedMapsAreRefusedOrAnswer) {
  std::mt19937_64 random(11);
  int num_read = 0, num_refused = 0;
  const int count = testing::tries_all() ? 20'000 : 400;
  for (const std::string name : {"nfkc", "clusters"}) {
    const std::string whole = recorded_map(name);
    for (int i = 0; i < count; ++i) {
      std::string bytes = whole;
      for (uint64_t left = random() % 8 + 1; left > 0; --left) {
        const size_t limit =
            random() % 4 == 0 ? std::min<size_t>(bytes.size(), 1100) : bytes.size();
        bytes[random() % limit] = static_cast<char>(random());
      }
      if (random() % 16 == 0) bytes.resize(random() % bytes.size());
      try {
        const Charsmap map(bytes);
        for (int part = 0; part < 200; ++part) {
          std::string text(random() % 6, '\0');
          for (char& c : text) c = static_cast<char>(random());
          const auto found = map.find(text);
          EXPECT_TRUE(!found || valid_prefix(*found) == found->size());
        }
        ++num_read;
      } catch (const ConfigError&) {
        ++num_refused;
      }
    }
  }
  EXPECT_GT(num_read, count / 10);
  EXPECT_GT(num_refused, count / 10);
}

}  // namespace
}  // namespace tessera

#include "data/set/token_set.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/testing/share.h"
#include "data/set/block_sums.h"
#include "data/set/check_set.h"
#include "data/set/set_writer.h"
#include "data/testing/json_damage.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using Documents = std::vector<std::vector<int32_t>>;
const Documents kDocuments = {{5, 6, 7, 1}, {1}, {300, 2, 1}};

std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class TokenSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("token_set_") +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write_set(SetFormat format, const Documents& documents = kDocuments,
                     TokenType type = TokenType::kU16) {
    SetDescription facts;
    facts.type = type;
    facts.vocab_size = 400;
    facts.end_token = 1;
    facts.tokenizer = "0123456789abcdef";
    const fs::path place = folder_ / (format == SetFormat::kTessera ? "set" : "corpus");
    SetWriter writer({format, place}, facts);
    for (const std::vector<int32_t>& document : documents) {
      writer.append(document);
      writer.end_document();
    }
    writer.finish();
    return place;
  }

  static std::string refusal(const fs::path& path) {
    try {
      (void)check_set(TokenSet::open(path), 0);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
};

std::vector<int32_t> tokens_of(const TokenSet& set) {
  std::vector<int32_t> tokens(static_cast<size_t>(set.size()));
  set.copy(0, tokens);
  return tokens;
}

TEST_F(TokenSetTest, ReadsWhatWasWritten) {
  const std::vector<int32_t> all = {5, 6, 7, 1, 1, 300, 2, 1};
  for (const SetFormat format : {SetFormat::kTessera, SetFormat::kMegatron}) {
    for (const TokenType type :
         {TokenType::kU16, format == SetFormat::kTessera ? TokenType::kU32 : TokenType::kI32}) {
      const TokenSet set = TokenSet::open(write_set(format, kDocuments, type));
      EXPECT_EQ(tokens_of(set), all);
      EXPECT_EQ(set.documents(), 3);
      EXPECT_EQ(set.type(), type);
      const SetCheck check = check_set(set, 0);
      EXPECT_EQ(check.largest_id, 300);
      EXPECT_EQ(check.shortest_document, 1);
      EXPECT_EQ(check.longest_document, 4);
      EXPECT_EQ(set.end_token(), format == SetFormat::kTessera ? 1 : -1);
    }
  }
}

// The bytes as Megatron's own reader and writer know them.
TEST_F(TokenSetTest, MegatronFilesAreThoseOfMegatron) {
  const fs::path prefix = write_set(SetFormat::kMegatron);
  std::string index("MMIDIDX\0\0", 9);
  const auto add = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) index += static_cast<char>(value >> (8 * i));
  };
  add(1, 8);  // version
  add(8, 1);  // u16
  add(3, 8);  // sequences
  add(4, 8);  // entries of documents
  for (const int length : {4, 1, 3}) add(static_cast<uint64_t>(length), 4);
  for (const int pointer : {0, 8, 10}) add(static_cast<uint64_t>(pointer), 8);
  for (const int document : {0, 1, 2, 3}) add(static_cast<uint64_t>(document), 8);
  EXPECT_EQ(read_bytes(prefix.string() + ".idx"), index);
  EXPECT_EQ(read_bytes(prefix.string() + ".bin"),
            std::string("\5\0\6\0\7\0\1\0\1\0\x2c\1\2\0\1\0", 16));
  EXPECT_FALSE(fs::exists(prefix.string() + ".ends"));
  // A document of several sequences, tokens of 64 bits, and the name of either file.
  index.resize(17);
  add(5, 1);
  add(2, 8);
  add(2, 8);
  for (const int length : {1, 2}) add(static_cast<uint64_t>(length), 4);
  for (const int pointer : {0, 8}) add(static_cast<uint64_t>(pointer), 8);
  for (const int document : {0, 2}) add(static_cast<uint64_t>(document), 8);
  write_bytes(folder_ / "wide.idx", index);
  index.clear();
  for (const int token : {70'000, 2, 3}) add(static_cast<uint64_t>(token), 8);
  write_bytes(folder_ / "wide.bin", index);
  for (const char* name : {"wide", "wide.bin", "wide.idx"}) {
    const TokenSet wide = TokenSet::open(folder_ / name);
    EXPECT_EQ(tokens_of(wide), (std::vector<int32_t>{70'000, 2, 3}));
    EXPECT_EQ(wide.documents(), 1);
    EXPECT_EQ(check_set(wide, 0).longest_document, 3);
  }
}

TEST_F(TokenSetTest, TruncatedFilesAreNamedWithWhatToDo) {
  const fs::path set = write_set(SetFormat::kTessera);
  const fs::path corpus = write_set(SetFormat::kMegatron);
  const std::vector<std::pair<fs::path, fs::path>> files = {{set / "tokens.bin", set},
                                                            {set / "documents.bin", set},
                                                            {corpus.string() + ".bin", corpus},
                                                            {corpus.string() + ".idx", corpus}};
  for (const auto& [file, of] : files) {
    const std::string whole = read_bytes(file);
    fs::resize_file(file, whole.size() - 1);
    const std::string text = refusal(of);
    EXPECT_NE(text.find("cut off"), std::string::npos) << file << ": " << text;
    EXPECT_NE(text.find(file.string()), std::string::npos) << text;
    EXPECT_NE(text.find("again"), std::string::npos) << text;
    write_bytes(file, whole);
    EXPECT_EQ(refusal(of), "");
  }
}

TEST_F(TokenSetTest, AFlippedBitIsFoundWithItsPlace) {
  const fs::path set = write_set(SetFormat::kTessera);
  for (const char* name : {"tokens.bin", "documents.bin", "set.json"}) {
    const std::string whole = read_bytes(set / name);
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 1);
      write_bytes(set / name, damaged);
      const std::string text = refusal(set);
      // White space of the JSON says nothing.
      const bool blank = std::string(name) == "set.json" && std::isspace(whole[at]) != 0;
      ASSERT_TRUE(blank || text.find(name) != std::string::npos) << name << " byte " << at << text;
    }
    write_bytes(set / name, whole);
  }
}

TEST_F(TokenSetTest, IdsBeyondTheVocabularyAreRefusedWithBothNumbers) {
  const TokenSet set = TokenSet::open(write_set(SetFormat::kMegatron));
  std::vector<int32_t> tokens(8);
  EXPECT_NO_THROW(set.copy(0, tokens, 301));
  try {
    set.copy(0, tokens, 300);
    FAIL();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("token 5 (byte 10) has the id 300, but the vocabulary has 300"),
              std::string::npos)
        << text;
  }
}

TEST_F(TokenSetTest, WhatIsNoSetIsRefusedWithWhatWasMeant) {
  const fs::path set = write_set(SetFormat::kTessera);
  EXPECT_NE(refusal(folder_ / "absent").find("does not exist"), std::string::npos);
  EXPECT_NE(refusal(folder_).find("'tessera data prepare' makes one"), std::string::npos);
  fs::create_directories(folder_ / "both");
  fs::rename(set, folder_ / "both" / "train");
  EXPECT_NE(refusal(folder_ / "both").find("name one of them"), std::string::npos);
  write_bytes(folder_ / "text.txt", "words");
  EXPECT_NE(refusal(folder_ / "text.txt").find("data.path reads text"), std::string::npos);
  write_bytes(folder_ / "half.bin", "words");
  EXPECT_NE(refusal(folder_ / "half").find("half.idx' is missing"), std::string::npos);
  write_bytes(folder_ / "prepare.json", "{}");
  EXPECT_NE(refusal(folder_).find("not finished"), std::string::npos);
}

TEST_F(TokenSetTest, AnEmptySetIsOne) {
  for (const SetFormat format : {SetFormat::kTessera, SetFormat::kMegatron}) {
    const TokenSet set = TokenSet::open(write_set(format, {}));
    EXPECT_EQ(set.size(), 0);
    EXPECT_EQ(set.documents(), 0);
    EXPECT_EQ(check_set(set, 0).largest_id, -1);
  }
}

// Damage of any kind is refused or harmless; under the sanitizers no byte outside is touched.
TEST_F(TokenSetTest, RandomDamageNeverCrashes) {
  const fs::path set = write_set(SetFormat::kTessera);
  const fs::path corpus = write_set(SetFormat::kMegatron);
  std::mt19937 random(7);
  const auto some = [&](size_t below) { return random() % std::max<size_t>(1, below); };
  int refused = 0;
  for (const auto& [file, of] :
       std::vector<std::pair<fs::path, fs::path>>{{corpus.string() + ".idx", corpus},
                                                  {set / "set.json", set},
                                                  {set / "documents.bin", set}}) {
    const std::string whole = read_bytes(file);
    for (int i = 0; i < (testing::tries_all() ? 10'000 : 250); ++i) {
      std::string damaged = whole;
      for (size_t n = 1 + some(4); n > 0; --n) {
        const size_t at = some(damaged.size());
        switch (some(5)) {
          case 0:
            damaged.resize(at);
            break;
          case 1:
            damaged.insert(at, 1 + some(9), static_cast<char>(random()));
            break;
          case 2:
            for (size_t k = at; k < std::min(at + 8, damaged.size()); ++k) damaged[k] = '\xff';
            break;
          default:
            if (!damaged.empty()) damaged[at] = static_cast<char>(random());
        }
      }
      write_bytes(file, damaged);
      refused += refusal(of).empty() ? 0 : 1;
    }
    write_bytes(file, whole);
    EXPECT_EQ(refusal(of), "");
  }
  EXPECT_GT(refused, 600);
}

// Headers with a right checksum, so that every field is looked at.
TEST_F(TokenSetTest, ChangedHeadersNeverCrash) {
  using Json = nlohmann::ordered_json;
  const fs::path set = write_set(SetFormat::kTessera);
  const std::string whole = read_bytes(set / "set.json");
  std::mt19937_64 random(8);
  testing::JsonDamage<Json> damage(random);
  int refused = 0;
  const int count = testing::tries_all() ? 20'000 : 500;
  for (int i = 0; i < count; ++i) {
    Json head = Json::parse(whole);
    head.erase("crc32");
    for (size_t left = 1 + random() % 3; left > 0; --left) damage.apply(head);
    if (head.is_object()) {
      const std::string text = head.dump(1, ' ', false, Json::error_handler_t::replace);
      head["crc32"] = fmt::format("{:08x}", crc32_of(std::as_bytes(std::span(text))));
    }
    write_bytes(set / "set.json", head.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
    refused += refusal(set).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, count / 2);
}

}  // namespace
}  // namespace tessera

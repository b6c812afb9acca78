#include "data/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/stream_decoder.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

Json document_of(const std::string& kind) {
  std::ifstream file(TESSERA_SOURCE_DIR "/tests/data/tokenizers/" + kind + "/tokenizer.json");
  return Json::parse(file);
}

Tokenizer tokenizer_of(const Json& document) { return Tokenizer::parse(document.dump(), "t.json"); }

// What is said of `document` when it is read.
std::string refusal(const Json& document) {
  try {
    tokenizer_of(document);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "read";
}

std::vector<int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  TokenEncoder encoder(tokenizer);
  std::vector<int32_t> ids;
  encoder.encode(text, false, ids);
  return ids;
}

TEST(TokenizerTest, NamesThePartThatItDoesNotKnow) {
  Json document = document_of("llama3");
  document["pre_tokenizer"]["pretokenizers"][0] = {{"type", "UnicodeScripts"}};
  EXPECT_EQ(refusal(document).find("t.json: pre_tokenizer.pretokenizers[0]: pre-tokenizer "
                                   "'UnicodeScripts' is not supported"),
            0U);
  document = document_of("unigram");
  document["normalizer"] = {{"type", "BertNormalizer"}};
  EXPECT_NE(refusal(document).find("normalizer 'BertNormalizer' is not supported"),
            std::string::npos);
  document = document_of("gpt2");
  document["decoder"] = {{"type", "CTC"}};
  EXPECT_NE(refusal(document).find("decoder 'CTC' is not supported"), std::string::npos);
  document = document_of("gpt2");
  document["post_processor"] = {{"type", "Mine"}};
  EXPECT_NE(refusal(document).find("post-processor 'Mine' is not supported"), std::string::npos);
  document = document_of("gpt2");
  document["model"]["type"] = "WordPiece";
  EXPECT_NE(refusal(document).find("model 'WordPiece' is not supported"), std::string::npos);
}

TEST(TokenizerTest, OffsetsOfAnAddedTokenAreWithoutTheBlanksThatItTakes) {
  Json document = document_of("gpt2");
  document["added_tokens"][1]["lstrip"] = true;
  const auto end_of_text = [&] {
    const Tokenizer tokenizer = tokenizer_of(document);
    const ByteRange last =
        TokenEncoder(tokenizer).encode_with_offsets("a  <|end|>", false).offsets.back();
    return std::pair(last.begin, last.end);
  };
  EXPECT_EQ(end_of_text(), std::pair(1U, 10U));
  document["post_processor"]["trim_offsets"] = true;
  EXPECT_EQ(end_of_text(), std::pair(3U, 10U));
}

TEST(TokenizerTest, RefusesWhatWouldChangeTokens) {
  Json document = document_of("gpt2");
  document["model"]["dropout"] = 0.1;
  EXPECT_NE(refusal(document).find("dropout"), std::string::npos);
  document["model"]["dropout"] = nullptr;
  document["model"]["end_of_word_suffix"] = "</w>";
  EXPECT_NE(refusal(document).find("end_of_word_suffix '</w>'"), std::string::npos);
  document = document_of("llama3");
  Json& pattern = document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
  pattern = "[a-z&&]+";
  EXPECT_NE(refusal(document).find("an empty side of '&&'"), std::string::npos);
  pattern = "(?m:a)";
  EXPECT_NE(refusal(document).find("a group '(?m:'"), std::string::npos);
  pattern = "(a";
  EXPECT_NE(refusal(document).find("missing closing parenthesis"), std::string::npos);
}

TEST(TokenizerTest, NamesThePlaceOfADamagedMap) {
  Json document = document_of("unigram");
  Json& map = document["normalizer"];
  map = {{"type", "Precompiled"}, {"precompiled_charsmap", "AA=="}};
  EXPECT_EQ(refusal(document),
            "t.json: normalizer.precompiled_charsmap: the map has 1 bytes, less than the 4 of its "
            "size");
  map["precompiled_charsmap"] = "A!==";
  EXPECT_EQ(refusal(document),
            "t.json: normalizer.precompiled_charsmap: expected base64 with padding");
  map["precompiled_charsmap"] = nullptr;
  EXPECT_EQ(refusal(document), "t.json: normalizer.precompiled_charsmap: expected a text");
  document = document_of("gpt2");
  document["pre_tokenizer"] = {{"type", "FixedLength"}, {"length", 0}};
  EXPECT_EQ(refusal(document), "t.json: pre_tokenizer.length: expected at least 1");
}

TEST(TokenizerTest, NamesBadMergesAndIds) {
  Json document = document_of("gpt2");
  document["model"]["merges"].push_back({"qq", "zz"});
  EXPECT_NE(refusal(document).find("\"qq\" is not in the vocabulary"), std::string::npos);
  document["model"]["merges"] = {"a b c"};
  EXPECT_NE(refusal(document).find("merge 1, 'a b c'"), std::string::npos);
  document = document_of("gpt2");
  document["model"].erase("merges");
  EXPECT_NE(refusal(document).find("'merges' is missing"), std::string::npos);
  document = document_of("gpt2");
  document["model"]["vocab"]["!"] = -1;
  EXPECT_NE(refusal(document).find("the id of '!'"), std::string::npos);
  document = document_of("llama3");
  document["post_processor"]["special_tokens"]["<|begin_of_text|>"]["ids"] = {99999};
  EXPECT_NE(refusal(document).find("id 99999"), std::string::npos);
  document = document_of("unigram");
  document["model"]["unk_id"] = 800;
  EXPECT_NE(refusal(document).find("unk_id is 800"), std::string::npos);
}

TEST(TokenizerTest, LongRunsTakeTimeInProportion) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string kind : {"gpt2", "llama3", "qwen2", "llama2", "metaspace", "unigram"}) {
    const Tokenizer tokenizer = tokenizer_of(document_of(kind));
    for (const std::string unit : {"a", " ", "\n", "\xE6\x97\xA5", "<", "\xCC\x81", "'"}) {
      std::string text;
      while (text.size() < 300'000) text += unit;
      EXPECT_GT(ids_of(tokenizer, text).size(), 1U);
    }
  }
  // Quadratic time would be hours.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));
}

TEST(TokenizerTest, TextThatIsNotUtf8CountsAsReplacementCharacters) {
  const Tokenizer tokenizer = tokenizer_of(document_of("gpt2"));
  EXPECT_EQ(ids_of(tokenizer, "a\xFF\xE6\x97z\xF0\x9F"),
            ids_of(tokenizer, "a\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD"));
}

TEST(TokenizerTest, SpecialTokensAreLeftOutOnRequest) {
  const Tokenizer tokenizer = tokenizer_of(document_of("llama2"));
  const std::vector<int32_t> ids = {1, tokenizer.id_of("\xE2\x96\x81t"), 2};
  EXPECT_EQ(tokenizer.decode(ids, true), "t");
  EXPECT_EQ(tokenizer.decode(ids, false), "<s> t</s>");
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_EQ(tokenizer.id_of("</s>"), 2);
  EXPECT_EQ(tokenizer.id_of("no such token"), -1);
  EXPECT_EQ(tokenizer.token_of(2), "</s>");
  EXPECT_EQ(tokenizer.vocab_size(), 1210);
}

TEST(TokenizerTest, AStreamHoldsBackHalfOfACharacter) {
  const Tokenizer bytes = tokenizer_of(document_of("gpt2"));
  const std::vector<int32_t> smile = ids_of(bytes, "\xF0\x9F\x99\x82!");
  StreamDecoder stream(bytes, true);
  std::string text;
  for (size_t i = 0; i + 2 < smile.size(); ++i) EXPECT_EQ(stream.push(smile[i]), "");
  EXPECT_EQ(stream.push(smile[smile.size() - 2]), "\xF0\x9F\x99\x82");
  EXPECT_EQ(stream.push(smile.back()), "!");
  EXPECT_EQ(stream.push(smile.front()), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");

  const Tokenizer fallback = tokenizer_of(document_of("llama2"));
  StreamDecoder other(fallback, true);
  for (const int32_t byte : {0xF0, 0x9F, 0x99}) EXPECT_EQ(other.push(byte + 3), "");
  EXPECT_EQ(other.push(0x82 + 3), "\xF0\x9F\x99\x82");
  // Bytes that are never a character do not hold the rest back for ever, nor spoil it.
  std::string rest;
  for (int i = 0; i < 40; ++i) rest += other.push(0xFF + 3);
  EXPECT_EQ(rest.size(), 40U * 3);
  EXPECT_EQ(other.push(0xF0 + 3), "");
  EXPECT_EQ(other.push('z' + 3), "\xEF\xBF\xBDz");
  // U+FFFD itself is a character like others.
  for (const int32_t byte : {0xEF, 0xBF}) EXPECT_EQ(other.push(byte + 3), "");
  EXPECT_EQ(other.push(0xBD + 3), "\xEF\xBF\xBD");
  EXPECT_EQ(other.push(fallback.id_of("\xE2\x96\x81t")), " t");
}

}  // namespace
}  // namespace tessera

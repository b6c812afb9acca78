#include "data/tokenizer/model/model_lists.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/tokenizer/fingerprint.h"

namespace tessera {
namespace {

using nlohmann::json;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A small file: `model` is what stands in the model beside its type.
std::string file_of(const std::string& model, const std::string& more = "") {
  return R"({"added_tokens": [{"content": "}\"]"}], "model": {"type": "BPE", )" + model + "}" +
         more + "}";
}
bool is_read(const std::string& text) { return split_model(text).has_value(); }

void expect_as_parsed(const std::string& text) {
  const auto split = split_model(text);
  ASSERT_TRUE(split.has_value());
  json document = json::parse(text);
  std::map<std::string, int32_t> vocab;
  for (const auto& [token, id] : split->lists.vocab) vocab[token] = id;
  EXPECT_EQ(json(vocab), document["model"]["vocab"]);
  json merges = json::array();
  for (json& merge : document["model"]["merges"]) {
    if (merge.is_array()) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  for (const auto& [left, right] : split->lists.merges) merges.push_back(left + " " + right);
  EXPECT_EQ(merges, document["model"]["merges"]);
  const json rest = json::parse(split->rest);
  EXPECT_EQ(tokenizer_fingerprint(rest, split->lists), tokenizer_fingerprint(document));
  document["model"]["vocab"] = json::object();
  document["model"]["merges"] = json::array();
  EXPECT_EQ(rest, document);
}

TEST(ModelListsTest, AreWhatAParserReads) {
  for (const std::string kind : {"gpt2", "llama3", "qwen2", "llama2", "metaspace"}) {
    SCOPED_TRACE(kind);
    const std::string text =
        read_text(TESSERA_SOURCE_DIR "/tests/data/tokenizers/" + kind + "/tokenizer.json");
    expect_as_parsed(text);
    // Written in other ways: without white space, with a lot, with escapes for all that has one.
    expect_as_parsed(json::parse(text).dump());
    expect_as_parsed(json::parse(text).dump(7, ' ', true));
  }
  expect_as_parsed(file_of(R"("merges": ["a b", ["b", "c d"]], "vocab": {"a":0 , "b" : 7})"));
  expect_as_parsed(file_of(R"("vocab": {}, "merges": [])", R"(, "x": [1.5e3, {"y": null}])"));
  expect_as_parsed(
      file_of(R"("vocab": {"\u0000\n\"\\\/\b\ud83d\ude42\u00E9": 3}, "merges": [ [ "", "\t" ] ])"));
}

TEST(ModelListsTest, WhatIsUnusualIsLeftToTheParser) {
  const std::string merges = R"("merges": [], )";
  EXPECT_TRUE(is_read(file_of(merges + R"("vocab": {"a": 0, "b": 1})")));
  for (const std::string vocab : {R"({"a": 0, "a": 1})",
                                  R"({"a": 0, "b": 0})",
                                  R"({"a": -1})",
                                  R"({"a": 1.0})",
                                  R"({"a": 1e2})",
                                  R"({"a": 01})",
                                  R"({"a": 16000000})",
                                  R"({"a": 99999999999999999999})",
                                  R"({"a": null})",
                                  R"({"a": })",
                                  R"({"a": 1,})",
                                  R"({"a" 1})",
                                  R"({a: 1})",
                                  R"(["a"])",
                                  R"({"\ud83d": 1})",
                                  R"({"\ude42": 1})",
                                  R"({"\ud83d\u0041": 1})",
                                  R"({"\u12": 1})",
                                  R"({"\x": 1})",
                                  "{\"a\n\": 1}",
                                  "{\"\xff\": 1}",
                                  "{\"\xc3\": 1}",
                                  R"({"a": 1)"}) {
    EXPECT_FALSE(is_read(file_of(merges + "\"vocab\": " + vocab))) << vocab;
  }
  const std::string vocab = R"("vocab": {"a": 0}, )";
  for (const std::string list : {R"(["#version: 0.2", "a a"])", R"(["a"])", R"(["a a a"])",
                                 R"([["a"]])", R"([["a", "a", "a"]])", R"([["a", 1]])", R"([1])",
                                 R"([["a", "a"],])", R"({})", R"(null)", R"(["a a")"}) {
    EXPECT_FALSE(is_read(file_of(vocab + "\"merges\": " + list))) << list;
  }
  const std::string both = vocab + R"("merges": [])";
  EXPECT_FALSE(is_read(file_of(both + R"(, "vocab": {"b": 1})")));
  EXPECT_FALSE(is_read(file_of(both + R"(, "merges": [])")));
  EXPECT_FALSE(is_read(file_of(both, R"(, "model": {})")));
  EXPECT_FALSE(is_read(file_of(both) + "x"));
  EXPECT_FALSE(is_read(file_of(vocab + R"("x": 1)")));
  EXPECT_FALSE(is_read(""));
  EXPECT_FALSE(is_read("\xef\xbb\xbf" + file_of(both)));
  EXPECT_FALSE(is_read(file_of(both, ", \"x\": " + std::string(1000, '['))));
}

// Whatever is there, a file that is cut off is not read as a whole one.
TEST(ModelListsTest, ACutFileIsNoFile) {
  const std::string text = file_of(R"("vocab": {"a\u0041\n": 12}, "merges": [["a", "b"], "c d"])");
  ASSERT_TRUE(is_read(text));
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(is_read(text.substr(0, size)));
}

}  // namespace
}  // namespace tessera

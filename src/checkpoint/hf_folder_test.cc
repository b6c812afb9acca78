#include "checkpoint/hf_folder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

using testing::message_of;
using testing::TestFolder;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class HfFolderTest : public ::testing::Test {
 protected:
  // A file with tensors of shape [2, 2], all elements `value`.
  void write_file(const std::string& file, const std::vector<std::string>& names,
                  float value) const {
    const std::vector<float> values(4, value);
    std::vector<TensorToWrite> tensors;
    for (const std::string& name : names) {
      tensors.push_back({name, StoredType::kF32, {2, 2}, std::as_bytes(std::span(values))});
    }
    write_safetensors(folder_.path(file), tensors, {});
  }
  void write_index(const std::string& weight_map) const {
    folder_.write(
        "model.safetensors.index.json",
        R"({"metadata":{"total_size":32,"x":[1,{"y":null}]},"weight_map":)" + weight_map + "}");
  }
  std::string open_error() const {
    return message_of<Error>([&] { HfWeights::open(folder_.path()); });
  }

  TestFolder folder_;
};

TEST_F(HfFolderTest, ReadsASingleFile) {
  write_file("model.safetensors", {"b", "a"}, 1.5F);
  folder_.write("pytorch_model.bin", "pickle");
  const HfWeights weights = HfWeights::open(folder_.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b"}));
  ASSERT_NE(weights.find("a"), nullptr);
  EXPECT_EQ(weights.find("c"), nullptr);
  std::vector<double> out(4);
  weights.read("a", {2, 2}, out);
  EXPECT_EQ(out, std::vector<double>(4, 1.5));
}

TEST_F(HfFolderTest, ReadsShards) {
  write_file("model-00001-of-00002.safetensors", {"a", "c"}, 1.0F);
  write_file("model-00002-of-00002.safetensors", {"b"}, 2.0F);
  write_index(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors",)"
              R"("c":"model-00001-of-00002.safetensors"})");
  const HfWeights weights = HfWeights::open(folder_.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b", "c"}));
  std::vector<float> out(4);
  weights.read("b", {2, 2}, out);
  EXPECT_EQ(out, std::vector<float>(4, 2.0F));
  std::vector<double> row(2);
  weights.read_range("c", {2, 2}, 2, row);
  EXPECT_EQ(row, std::vector<double>(2, 1.0));
}

TEST_F(HfFolderTest, FollowsTheLinksOfADownloadCache) {
  std::filesystem::create_directory(folder_.path("snapshot"));
  write_file("blob", {"a"}, 1.0F);
  std::filesystem::create_symlink("../blob", folder_.path("snapshot/model.safetensors"));
  EXPECT_EQ(HfWeights::open(folder_.path("snapshot")).names(), std::vector<std::string>{"a"});
}

TEST_F(HfFolderTest, RefusesAFolderWithoutSafetensors) {
  folder_.write("pytorch_model.bin", "pickle");
  const std::string message = open_error();
  EXPECT_HAS(message, "neither model.safetensors nor model.safetensors.index.json");
  EXPECT_HAS(message, "*.bin files are never read");
  EXPECT_HAS(message_of<Error>([&] { HfWeights::open(folder_.path("no")); }), "does not exist");
}

TEST_F(HfFolderTest, RefusesPathTricksInTheIndex) {
  write_file("ok.safetensors", {"a"}, 1.0F);
  std::filesystem::create_directory(folder_.path("sub"));
  for (const std::string& name : std::vector<std::string>{
           "../ok.safetensors", "/etc/passwd", "sub/ok.safetensors", ".hidden", "..", ".", "",
           "a\\\\b", "a b", "ok.safetensors\\u0000", "\\u00e9", std::string(129, 'a')}) {
    write_index("{\"a\":\"" + name + "\"}");
    EXPECT_HAS(open_error(), "which is not a plain file name");
  }
  write_index(R"({"a":"sub"})");
  EXPECT_HAS(open_error(), "is not a regular file");
  write_index(R"({"a":"ok.safetensors"})");
  EXPECT_EQ(open_error(), "no error");
}

TEST_F(HfFolderTest, RefusesADamagedIndex) {
  write_file("s.safetensors", {"a"}, 1.0F);
  const auto index_error = [&](const std::string& json) {
    folder_.write("model.safetensors.index.json", json);
    return open_error();
  };
  EXPECT_HAS(index_error(""), "JSON is not valid");
  EXPECT_HAS(index_error("[]"), "has an array where none may be");
  EXPECT_HAS(index_error("3"), "has a number where none may be");
  EXPECT_HAS(index_error("{}"), "lists no tensors under weight_map");
  EXPECT_HAS(index_error(R"({"weight_map":[]})"), "lists no tensors under weight_map");
  EXPECT_HAS(index_error(R"({"x":{"weight_map":{"a":"s.safetensors"}}})"), "lists no tensors");
  EXPECT_HAS(index_error(R"({"weight_map":{"a":1}})"), "weight_map has a number");
  EXPECT_HAS(index_error(R"({"weight_map":{"a":["s"]}})"), "weight_map has an array");
  EXPECT_HAS(index_error(R"({"weight_map":{"a":{}}})"), "weight_map has an object");
  EXPECT_HAS(index_error(R"({"weight_map":{"a":"s.safetensors","a":"t"}})"),
             "weight_map has tensor \"a\" twice");
  EXPECT_HAS(index_error(R"({"weight_map":{},"weight_map":{}})"), "two weight_map objects");
  EXPECT_HAS(index_error("{\"x\":" + std::string(1000, '[')), "nested deeper than 64");
}

TEST_F(HfFolderTest, RefusesAnIndexThatDoesNotMatchItsFiles) {
  write_file("s.safetensors", {"a", "b"}, 1.0F);
  write_file("t.safetensors", {"a"}, 2.0F);
  write_index(R"({"a":"s.safetensors","b":"s.safetensors","c":"s.safetensors"})");
  EXPECT_HAS(open_error(), "says that tensor \"c\" is in");
  write_index(R"({"a":"s.safetensors"})");
  EXPECT_HAS(open_error(), "holds tensor \"b\", which");
  write_index(R"({"a":"t.safetensors","b":"s.safetensors"})");
  EXPECT_HAS(open_error(), "holds tensor \"a\", which");
  write_index(R"({"a":"missing.safetensors"})");
  EXPECT_HAS(open_error(), "missing.safetensors': No such file");
}

TEST_F(HfFolderTest, ChecksShapes) {
  write_file("model.safetensors", {"a"}, 1.0F);
  const HfWeights weights = HfWeights::open(folder_.path());
  std::vector<double> out(4);
  EXPECT_HAS(message_of<Error>([&] { weights.read("a", {4}, out); }),
             "has shape [2, 2] but the model needs [4]");
  EXPECT_HAS(message_of<Error>([&] { weights.read("z", {4}, out); }), "has no tensor \"z\"");
}

TEST_F(HfFolderTest, ListsAllMissingAndUnmappedNames) {
  write_file("model.safetensors", {"a", "x", "y", "model.layers.0.self_attn.rotary_emb.inv_freq"},
             1.0F);
  const HfWeights weights = HfWeights::open(folder_.path());
  const std::vector<std::string> expected{"a", "b", "c"};
  const std::string message = message_of<Error>([&] { require_exact_names(weights, expected); });
  EXPECT_HAS(message, "missing (2): b, c\n");
  EXPECT_HAS(message, "unmapped (2): \"x\", \"y\"\n");
  const std::vector<std::string> exact{"a", "x", "y"};
  EXPECT_NO_THROW(require_exact_names(weights, exact));
}

}  // namespace
}  // namespace tessera

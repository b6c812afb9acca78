#include "checkpoint/hf_shards.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

TensorHead of_bytes(const std::string& name, int64_t bytes) {
  return {name, StoredType::kF32, {bytes / 4}};
}

TEST(HfShards, FillsFilesInOrder) {
  const std::vector<HfShard> shards = deal_into_shards(
      {of_bytes("c", 40), of_bytes("b", 60), of_bytes("a", 4), of_bytes("big", 400)}, 100);
  ASSERT_EQ(shards.size(), 3U);
  EXPECT_EQ(shards[0].file, "model-00001-of-00003.safetensors");
  EXPECT_EQ(shards[0].tensors.size(), 2U);
  EXPECT_EQ(shards[1].tensors.front().name, "a");
  EXPECT_EQ(shards[2].tensors.front().name, "big");
  EXPECT_EQ(index_of_shards(shards).dump(),
            R"({"metadata":{"total_size":504},"weight_map":{)"
            R"("a":"model-00002-of-00003.safetensors","b":"model-00001-of-00003.safetensors",)"
            R"("big":"model-00003-of-00003.safetensors","c":"model-00001-of-00003.safetensors"}})");
}

TEST(HfShards, OneFileHasThePlainName) {
  EXPECT_EQ(deal_into_shards({of_bytes("a", 40), of_bytes("b", 60)}, 100)[0].file,
            "model.safetensors");
}

}  // namespace
}  // namespace tessera

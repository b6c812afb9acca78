// For tests: tensors whose every element is known, cut up among ranks at random, saved and read.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/store/box_reader.h"
#include "checkpoint/store/committer.h"

namespace tessera::testing {

using Dice = std::mt19937_64;
inline int64_t roll(Dice& dice, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(dice);
}

// A tensor of 0 to 3 dims of odd sizes.
std::vector<TensorHead> random_tensors(Dice& dice, int64_t count, int64_t most_size);

// The bytes of element `element` (row-major) of a tensor: never the same for two.
uint64_t element_value(const std::string& tensor, int64_t element, uint64_t seed);
// The values of a box, row by row.
std::vector<std::byte> values_of(const TensorHead& tensor, const Box& box, uint64_t seed);

// Who holds which box, by rank: by rows, by columns, on a grid, or as flat ranges of a part, and
// some boxes on several ranks. Every element is held; boxes are equal or disjoint.
std::vector<std::vector<HeldBox>> random_sharding(Dice& dice,
                                                  const std::vector<TensorHead>& tensors,
                                                  int64_t world);

// All steps of a save. The memory of the chunks has gaps between rows.
std::vector<ShardAck> write_shards(FileOps& files, const SavePlan& plan, const SaveId& id,
                                   int64_t step, uint64_t seed);
void save_sample(FileOps& files, const SavePlan& plan, const SaveId& id, int64_t step,
                 uint64_t seed, const nlohmann::json& state = nlohmann::json::object());

// Reads boxes into memory with gaps and compares every element; returns what was read.
ReadFigures expect_values(const FileOps& files, const CheckpointFolder& checkpoint,
                          const std::vector<TensorHead>& tensors, const std::vector<HeldBox>& boxes,
                          uint64_t seed);

// Two tensors on two ranks, 40 bytes of data each: for tests that look at every byte.
SavePlan small_plan();

}  // namespace tessera::testing

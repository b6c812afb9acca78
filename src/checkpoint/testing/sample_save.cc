#include "checkpoint/testing/sample_save.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace tessera::testing {
namespace {

constexpr StoredType kTypes[] = {StoredType::kF32, StoredType::kBF16, StoredType::kI16,
                                 StoredType::kF64};
constexpr int64_t kGap = 3;  // elements between rows in memory

int64_t bytes_of_element(StoredType type) { return size_bits(type) / 8; }

// Cuts [0, size) into at most `parts`, not always equal.
std::vector<std::pair<int64_t, int64_t>> cuts(Dice& dice, int64_t size, int64_t parts) {
  std::vector<int64_t> at = {0, size};
  for (int64_t i = 1; i < parts; ++i) at.push_back(roll(dice, 0, size));
  std::ranges::sort(at);
  std::vector<std::pair<int64_t, int64_t>> result;
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    if (at[i] < at[i + 1]) result.emplace_back(at[i], at[i + 1]);
  }
  return result;
}

// A box cut along one dim.
std::vector<Box> cut_along(Dice& dice, const Box& box, size_t dim, int64_t parts) {
  std::vector<Box> boxes;
  for (const auto& [begin, end] : cuts(dice, box.shape[dim], parts)) {
    Box part = box;
    part.offset[dim] += begin;
    part.shape[dim] = end - begin;
    boxes.push_back(std::move(part));
  }
  return boxes;
}

// A box as ranges of its own elements, like ZeRO has it.
std::vector<Box> cut_flat(Dice& dice, const Box& box, int64_t parts) {
  std::vector<Box> boxes;
  for (const auto& [begin, end] : cuts(dice, volume(box), parts)) {
    for (Box& part : boxes_of_range(box.shape, begin, end - begin)) {
      for (size_t d = 0; d < part.dims(); ++d) part.offset[d] += box.offset[d];
      boxes.push_back(std::move(part));
    }
  }
  return boxes;
}

std::vector<Box> random_boxes(Dice& dice, const std::vector<int64_t>& shape, int64_t world) {
  std::vector<Box> boxes = {whole_box(shape)};
  if (shape.empty()) return boxes;
  const int64_t rounds = roll(dice, 0, 2);
  for (int64_t round = 0; round < rounds; ++round) {
    const auto dim = static_cast<size_t>(roll(dice, 0, std::ssize(shape) - 1));
    const bool flat = roll(dice, 0, 2) == 0;
    std::vector<Box> next;
    for (const Box& box : boxes) {
      for (Box& part : flat ? cut_flat(dice, box, world) : cut_along(dice, box, dim, world)) {
        next.push_back(std::move(part));
      }
    }
    boxes = std::move(next);
  }
  return boxes;
}

// A box in memory whose rows are `kGap` elements apart.
Placed placed_with_gaps(const Box& box) {
  Placed placed = placed_dense(box, 2);
  for (size_t d = 0; d + 1 < placed.strides.size(); ++d) {
    placed.strides[d] = placed.strides[d] / box.shape.back() * (box.shape.back() + kGap);
  }
  return placed;
}

int64_t memory_of(const Placed& placed) {
  int64_t elements = placed.first + 1;
  for (size_t d = 0; d < placed.box.dims(); ++d) {
    elements += (placed.box.shape[d] - 1) * placed.strides[d];
  }
  return elements;
}

}  // namespace

std::vector<TensorHead> random_tensors(Dice& dice, int64_t count, int64_t most_size) {
  std::vector<TensorHead> tensors;
  for (int64_t t = 0; t < count; ++t) {
    std::vector<int64_t> shape;
    const int64_t dims = roll(dice, 0, 3);
    for (int64_t d = 0; d < dims; ++d) shape.push_back(roll(dice, 1, most_size));
    tensors.push_back({fmt::format("layers.{}.weight", t), kTypes[roll(dice, 0, 3)], shape});
  }
  return tensors;
}

uint64_t element_value(const std::string& tensor, int64_t element, uint64_t seed) {
  Hasher hasher;
  hasher.add(tensor);
  hasher.add(element);
  hasher.add(seed);
  return hasher.value();
}

std::vector<std::byte> values_of(const TensorHead& tensor, const Box& box, uint64_t seed) {
  const int64_t element = bytes_of_element(tensor.type);
  std::vector<std::byte> bytes(static_cast<size_t>(volume(box) * element));
  const Placed whole = placed_dense(whole_box(tensor.shape));
  for_each_common_run(whole, placed_dense(box), box, [&](int64_t from, int64_t to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t value = element_value(tensor.name, from + i, seed);
      std::memcpy(bytes.data() + (to + i) * element, &value, static_cast<size_t>(element));
    }
  });
  return bytes;
}

std::vector<std::vector<HeldBox>> random_sharding(Dice& dice,
                                                  const std::vector<TensorHead>& tensors,
                                                  int64_t world) {
  std::vector<std::vector<HeldBox>> held(static_cast<size_t>(world));
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (const Box& box : random_boxes(dice, tensors[t].shape, world)) {
      const int64_t owner = roll(dice, 0, world - 1);
      for (int64_t rank = 0; rank < world; ++rank) {
        if (rank == owner || roll(dice, 0, 3) == 0) {
          held[static_cast<size_t>(rank)].push_back({t, box});
        }
      }
    }
  }
  return held;
}

std::vector<ShardAck> write_shards(FileOps& files, const SavePlan& plan, const SaveId& id,
                                   int64_t step, uint64_t seed) {
  std::vector<ShardAck> acks;
  for (int64_t rank = 0; rank < plan.world(); ++rank) {
    std::vector<std::byte> memory;
    acks.push_back(write_shard(files, plan, id, step, rank, [&](const HeldBox& held) {
      const TensorHead& tensor = plan.tensors[held.tensor];
      const int64_t element = bytes_of_element(tensor.type);
      const std::vector<std::byte> values = values_of(tensor, held.box, seed);
      const Placed place = placed_with_gaps(held.box);
      memory.assign(static_cast<size_t>(memory_of(place) * element), std::byte{0xEE});
      for_each_common_run(
          placed_dense(held.box), place, held.box, [&](int64_t from, int64_t to, int64_t count) {
            std::memcpy(memory.data() + to * element, values.data() + from * element,
                        static_cast<size_t>(count * element));
          });
      return ChunkMemory{memory.data(), place};
    }));
  }
  return acks;
}

void save_sample(FileOps& files, const SavePlan& plan, const SaveId& id, int64_t step,
                 uint64_t seed, const nlohmann::json& state) {
  begin_save(files, id);
  const std::vector<ShardAck> acks = write_shards(files, plan, id, step, seed);
  commit_save(files, plan, id, step, acks, state);
}

ReadFigures expect_values(const FileOps& files, const CheckpointFolder& checkpoint,
                          const std::vector<TensorHead>& tensors, const std::vector<HeldBox>& boxes,
                          uint64_t seed) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<WantedBox> wanted;
  for (const HeldBox& held : boxes) {
    const TensorHead& tensor = tensors[held.tensor];
    const Placed place = placed_with_gaps(held.box);
    memory.emplace_back(static_cast<size_t>(memory_of(place) * bytes_of_element(tensor.type)),
                        std::byte{0xEE});
    wanted.push_back({tensor.name, tensor.type, tensor.shape, place, memory.back().data()});
  }
  const ReadFigures figures = read_boxes(files, checkpoint, wanted);
  for (size_t i = 0; i < boxes.size(); ++i) {
    const TensorHead& tensor = tensors[boxes[i].tensor];
    const int64_t element = bytes_of_element(tensor.type);
    const std::vector<std::byte> values = values_of(tensor, boxes[i].box, seed);
    // What was there before stays between the rows.
    std::vector<std::byte> expected(memory[i].size(), std::byte{0xEE});
    for_each_common_run(placed_dense(boxes[i].box), wanted[i].place, boxes[i].box,
                        [&](int64_t from, int64_t to, int64_t count) {
                          std::memcpy(expected.data() + to * element,
                                      values.data() + from * element,
                                      static_cast<size_t>(count * element));
                        });
    EXPECT_TRUE(memory[i] == expected) << tensor.name << " " << box_text(boxes[i].box);
  }
  return figures;
}

SavePlan small_plan() {
  const std::vector<TensorHead> tensors = {{"a", StoredType::kF32, {5, 2}},
                                           {"b", StoredType::kBF16, {20}}};
  return plan_save(tensors, {{{0, {{0, 0}, {2, 2}}}, {1, {{0}, {20}}}},
                             {{0, {{2, 0}, {3, 2}}}, {1, {{0}, {20}}}}});
}

}  // namespace tessera::testing

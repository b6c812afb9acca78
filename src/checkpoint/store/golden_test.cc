// Checkpoints that version 1.0 wrote, kept in tests/data/checkpoints: they stay readable, and what
// is written today is the same bytes. TESSERA_UPDATE_GOLDEN=1 writes them anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/testing/test_folder.h"
#include "checkpoint/store/box_reader.h"
#include "checkpoint/store/committer.h"
#include "checkpoint/store/compare.h"
#include "checkpoint/store/verify_checkpoint.h"

namespace tessera {
namespace {

const std::string kGolden = std::string(TESSERA_SOURCE_DIR) + "/tests/data/checkpoints";

std::vector<TensorHead> tensors() {
  return {{"model.embed_tokens.weight", StoredType::kF32, {6, 4}},
          {"model.norm.weight", StoredType::kF32, {4}},
          {"optim.m.model.embed_tokens.weight", StoredType::kF32, {6, 4}},
          {"optim.v.model.embed_tokens.weight", StoredType::kF32, {6, 4}}};
}

// A rank of two: rows of the weight, a flat half of the states, and the norm on both.
SavePlan golden_plan() {
  std::vector<std::vector<HeldBox>> held(2);
  for (int64_t rank = 0; rank < 2; ++rank) {
    std::vector<HeldBox>& mine = held[static_cast<size_t>(rank)];
    mine.push_back({0, {{rank * 3, 0}, {3, 4}}});
    mine.push_back({1, whole_box({4})});
    for (const size_t state : {2U, 3U}) {
      const std::vector<int64_t> shape = {6, 4};
      for (const Box& box : boxes_of_range(shape, rank * 10, rank == 0 ? 10 : 14)) {
        mine.push_back({state, box});
      }
    }
  }
  return plan_save(tensors(), held);
}

float value_at(size_t tensor, int64_t element, int64_t step) {
  const auto base = static_cast<float>(tensor) * 100 + static_cast<float>(element) * 0.5F;
  return tensor == 1 ? base : base + static_cast<float>(step) / 8;  // the norm does not change
}

void save_golden(FileOps& files, int64_t step) {
  const SavePlan plan = golden_plan();
  const SaveId id{"4f1c02a9", 1, fmt::format("s{}", step)};
  begin_save(files, id);
  std::vector<ShardAck> acks;
  std::vector<float> memory;
  for (int64_t rank = 0; rank < 2; ++rank) {
    acks.push_back(write_shard(files, plan, id, step, rank, [&](const HeldBox& held) {
      const Placed whole = placed_dense(whole_box(plan.tensors[held.tensor].shape));
      memory.resize(static_cast<size_t>(volume(whole.box)));
      for (size_t i = 0; i < memory.size(); ++i) {
        memory[i] = value_at(held.tensor, static_cast<int64_t>(i), step);
      }
      return ChunkMemory{std::as_bytes(std::span(memory)).data(), whole};
    }));
  }
  commit_save(files, plan, id, step, acks,
              {{"seed", 7}, {"samples", step * 8}, {"mesh", {{"dp", 2}, {"zero", 1}}}});
}

TEST(GoldenCheckpointTest, VersionOneStaysReadable) {
  if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::remove_all(kGolden);
    const std::unique_ptr<FileOps> files = real_files(kGolden, /*make=*/true);
    for (const int64_t step : {12, 24}) save_golden(*files, step);
  }
  const std::unique_ptr<FileOps> files = real_files(kGolden);
  for (const int64_t step : {12, 24}) {
    EXPECT_EQ(verify_checkpoint(*files, step_folder(step), /*deep=*/true).code(), ExitCode::kOk);
    const CheckpointFolder checkpoint = open_checkpoint(*files, step_folder(step));
    EXPECT_EQ(checkpoint.manifest.head.version, (FormatVersion{1, 0}));
    EXPECT_EQ(checkpoint.state.at("samples"), step * 8);
    const std::vector<TensorHead> heads = tensors();
    for (size_t t = 0; t < heads.size(); ++t) {
      const Placed whole = placed_dense(whole_box(heads[t].shape));
      std::vector<float> values(static_cast<size_t>(volume(whole.box)));
      const WantedBox wanted{heads[t].name, heads[t].type, heads[t].shape, whole,
                             std::as_writable_bytes(std::span(values)).data()};
      read_boxes(*files, checkpoint, {&wanted, 1});
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(values[i], value_at(t, static_cast<int64_t>(i), step)) << heads[t].name;
      }
    }
  }
}

TEST(GoldenCheckpointTest, WhatIsWrittenTodayIsTheSameBytes) {
  const testing::TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path("ck"), /*make=*/true);
  for (const int64_t step : {12, 24}) save_golden(*files, step);
  size_t compared = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kGolden)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = std::filesystem::relative(entry.path(), kGolden).string();
    EXPECT_EQ(testing::read_file(folder.path("ck/" + name)), testing::read_file(entry.path()))
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, 15U);
}

TEST(GoldenCheckpointTest, DifferencesAreCounted) {
  const std::unique_ptr<FileOps> files = real_files(kGolden);
  const CheckpointFolder a = open_checkpoint(*files, step_folder(12));
  const CheckpointFolder b = open_checkpoint(*files, step_folder(24));
  const CheckpointDifference difference = compare_checkpoints({*files, a}, {*files, b});
  EXPECT_EQ(difference.same_tensors, 1);
  ASSERT_EQ(difference.tensors.size(), 3U);
  EXPECT_EQ(difference.tensors[0].tensor, "model.embed_tokens.weight");
  EXPECT_EQ(difference.tensors[0].different, 24);
  EXPECT_EQ(difference.tensors[0].largest, 1.5);
  EXPECT_EQ(difference.state, (std::vector<std::string>{"samples", "save", "step"}));
  EXPECT_TRUE(compare_checkpoints({*files, a}, {*files, a}).equal());
}

}  // namespace
}  // namespace tessera

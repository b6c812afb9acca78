#include "checkpoint/store/reshard.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/testing/share.h"
#include "checkpoint/store/saves.h"
#include "checkpoint/store/verify_checkpoint.h"
#include "checkpoint/testing/crash_disk.h"
#include "checkpoint/testing/sample_save.h"

namespace tessera {
namespace {

using testing::CrashDisk;
using testing::Dice;

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

// Every tensor is one box of one rank.
std::vector<HeldBox> all_of(const std::vector<TensorHead>& tensors) {
  std::vector<HeldBox> all;
  for (size_t t = 0; t < tensors.size(); ++t) all.push_back({t, whole_box(tensors[t].shape)});
  return all;
}

TEST(ReshardStoreTest, AnyCutOfAStateBecomesAnyOtherBitForBit) {
  const testing::Share seeds = testing::share_of(80, 4);
  for (auto seed = static_cast<uint64_t>(seeds.begin + 1); seed <= static_cast<uint64_t>(seeds.end);
       ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const auto tensors = testing::random_tensors(dice, 5, 90);
    CrashDisk from_disk, to_disk;
    const auto saved = testing::random_sharding(dice, tensors, testing::roll(dice, 1, 8));
    testing::save_sample(from_disk, plan_save(tensors, saved), {"run1", 1, "a"}, 7, seed);
    const CheckpointFolder from = open_checkpoint(from_disk, step_folder(7));
    const int64_t world = testing::roll(dice, 1, 8);
    const auto wanted = testing::random_sharding(dice, tensors, world);
    const ReadFigures figures =
        reshard({from_disk, from}, to_disk, tensors, wanted, {"run1", 1, "b"}, {{"seed", seed}});
    EXPECT_LE(figures.read_bytes, figures.needed_bytes + 4 * kStoreBlockBytes * figures.spans);
    EXPECT_TRUE(verify_checkpoint(to_disk, step_folder(7), /*deep=*/true).problems.empty());
    const CheckpointFolder to = open_checkpoint(to_disk, step_folder(7));
    EXPECT_EQ(std::ssize(to.manifest.files), world);
    EXPECT_EQ(to.state.at("seed"), seed);
    EXPECT_TRUE(compare_checkpoints({from_disk, from}, {to_disk, to}).equal());
    testing::expect_values(to_disk, to, tensors, all_of(tensors), seed);
  }
}

TEST(ReshardStoreTest, CutsLargeBoxesIntoOnesThatCoverThem) {
  const std::vector<TensorHead> tensors = {{"a", StoredType::kF32, {5, 7, 3}},
                                           {"b", StoredType::kF64, {1, 1001}}};
  for (const int64_t most : {1, 8, 40, 1000, 100000}) {
    const auto small = in_small_boxes(tensors, {all_of(tensors)}, most);
    for (const HeldBox& held : small[0]) {
      const int64_t element = size_bits(tensors[held.tensor].type) / 8;
      EXPECT_LE(volume(held.box) * element, std::max(most, element));
    }
    EXPECT_NO_THROW((void)plan_save(tensors, small));  // proves the cover
  }
}

TEST(ReshardStoreTest, ReplacesNothingAndLosesNothing) {
  Dice dice(3);
  const auto tensors = testing::random_tensors(dice, 4, 20);
  CrashDisk from_disk, to_disk;
  const auto held = testing::random_sharding(dice, tensors, 2);
  testing::save_sample(from_disk, plan_save(tensors, held), {"run1", 1, "a"}, 7, 3);
  testing::save_sample(to_disk, plan_save(tensors, held), {"run2", 1, "a"}, 7, 4);
  const CheckpointFolder from = open_checkpoint(from_disk, step_folder(7));
  const auto before = to_disk.contents();
  const auto again = [&](FileOps& to, std::vector<TensorHead> known) {
    return refusal_of([&] {
      reshard({from_disk, from}, to, known, {all_of(known)}, {"run1", 1, "b"},
              nlohmann::json::object());
    });
  };
  EXPECT_NE(again(to_disk, tensors).find("is there already"), std::string::npos);
  EXPECT_EQ(to_disk.contents(), before);
  CrashDisk other;
  EXPECT_NE(again(other, {tensors[0]}).find("that the run does not have"), std::string::npos);
  std::vector<TensorHead> more = tensors;
  more.push_back({"zz", StoredType::kF32, {2}});
  EXPECT_NE(again(other, more).find("has no tensor \"zz\""), std::string::npos);
  EXPECT_TRUE(list_saves(other).empty());  // the failure left nothing
}

// A full disk at any moment: nothing is left that could be taken for a checkpoint.
TEST(ReshardStoreTest, AFailingDiskLeavesTheSourceAndNoHalf) {
  Dice dice(5);
  const auto tensors = testing::random_tensors(dice, 3, 12);
  CrashDisk from_disk;
  const auto held = testing::random_sharding(dice, tensors, 3);
  testing::save_sample(from_disk, plan_save(tensors, held), {"run1", 1, "a"}, 7, 5);
  const auto before = from_disk.contents();
  const CheckpointFolder from = open_checkpoint(from_disk, step_folder(7));
  int failures = 0;
  for (int64_t i = 2; i < 400; ++i) {
    CrashDisk to;
    to.fail_at(i / 2, /*stays=*/i % 2 == 1);
    try {
      reshard({from_disk, from}, to, tensors, {all_of(tensors)}, {"run1", 1, "b"},
              nlohmann::json::object());
    } catch (const IoError&) {  // of the write that failed, not of tidying up
      ++failures;
      to.repair();
      for (const StoredSave& save : list_saves(to)) {
        if (save.committed) {
          EXPECT_TRUE(verify_checkpoint(to, save.folder, true).problems.empty());
        }
      }
    }
  }
  EXPECT_GT(failures, 5);
  EXPECT_EQ(from_disk.contents(), before);
}

}  // namespace
}  // namespace tessera

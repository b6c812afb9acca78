// Power may fail at any moment of a save, of its recovery and of retention: what was committed
// before can be read after, or what was being committed. The disk of these tests tries everything
// that a real one may have kept or lost.
#include <gtest/gtest.h>

#include "base/testing/share.h"
#include "checkpoint/store/saves.h"
#include "checkpoint/store/verify_checkpoint.h"
#include "checkpoint/testing/crash_disk.h"
#include "checkpoint/testing/sample_save.h"

namespace tessera {
namespace {

using namespace testing;  // the samples

SaveId id_of(int64_t step) { return {"run1", 1, "s" + std::to_string(step)}; }

constexpr int64_t kNone = -1, kDamaged = -2;

// What can be read of a disk after recovery. Everything that counts as good is good in depth.
int64_t step_after(CrashDisk& disk) {
  recover_saves(disk, {.run = "run1", .generation = 2});
  std::optional<CheckpointFolder> newest;
  try {
    newest = newest_good(disk, {});
  } catch (const Error&) {
    return kDamaged;
  }
  if (!newest) return kNone;
  EXPECT_EQ(verify_checkpoint(disk, newest->folder, /*deep=*/true, 1).code(), ExitCode::kOk);
  EXPECT_EQ(newest->folder, step_folder(newest->step()));
  const SavePlan plan = small_plan();
  expect_values(disk, *newest, plan.tensors, plan.writes[0], static_cast<uint64_t>(newest->step()));
  // Nothing is left of what was not finished.
  for (const StoredSave& save : list_saves(disk)) EXPECT_TRUE(save.committed) << save.folder;
  return newest->step();
}

struct Outcome {
  int64_t images = 0;
  int64_t bad = 0;                   // neither of the steps that may be there
  std::map<int64_t, int64_t> steps;  // how often each could be read
};

// Runs `action` and looks, after every change that it makes, at all that a disk may hold then.
Outcome crash_everywhere(CrashDisk& disk, const std::function<void()>& action,
                         const std::set<int64_t>& allowed, bool twice = false) {
  Outcome outcome;
  std::set<std::string> seen;
  disk.on_change = [&](int64_t) {
    for (const std::unique_ptr<CrashDisk>& image : disk.images(seen)) {
      ++outcome.images;
      if (twice) {  // power fails again during recovery
        std::set<std::string> inner;
        image->on_change = [&](int64_t) {
          for (const std::unique_ptr<CrashDisk>& again : image->images(inner)) {
            ++outcome.images;
            if (!allowed.contains(step_after(*again))) ++outcome.bad;
          }
        };
        recover_saves(*image, {.run = "run1", .generation = 2});
        image->on_change = nullptr;
      }
      const int64_t step = step_after(*image);
      ++outcome.steps[step];
      if (!allowed.contains(step)) ++outcome.bad;
    }
  };
  action();
  disk.on_change = nullptr;
  return outcome;
}

void save(CrashDisk& disk, int64_t step) {
  save_sample(disk, small_plan(), id_of(step), step, static_cast<uint64_t>(step));
}

TEST(CrashTest, ASaveIsThereOrTheOneBefore) {
  CrashDisk disk;
  save(disk, 1);
  const Outcome outcome = crash_everywhere(disk, [&] { save(disk, 2); }, {1, 2});
  EXPECT_EQ(outcome.bad, 0);
  EXPECT_GT(outcome.images, 150);
  EXPECT_GT(outcome.steps.at(1), 20);
  EXPECT_GT(outcome.steps.at(2), 3);
  EXPECT_EQ(step_after(disk), 2);
}

TEST(CrashTest, TheFirstSaveIsThereOrNone) {
  CrashDisk disk;
  EXPECT_EQ(crash_everywhere(disk, [&] { save(disk, 1); }, {kNone, 1}).bad, 0);
  EXPECT_EQ(step_after(disk), 1);
}

// Once the call has returned, the save is there whatever happens.
TEST(CrashTest, WhatWasCommittedStays) {
  CrashDisk disk;
  save(disk, 1);
  std::set<std::string> seen;
  int64_t images = 0;
  for (const std::unique_ptr<CrashDisk>& image : disk.images(seen)) {
    EXPECT_EQ(step_after(*image), 1);
    ++images;
  }
  EXPECT_GE(images, 1);
}

TEST(CrashTest, ASaveOfTheSameStepReplacesWithoutAGap) {
  CrashDisk disk;
  save(disk, 5);
  const Outcome outcome =
      crash_everywhere(disk,
                       [&] {
                         save_sample(disk, small_plan(), {"run1", 1, "again"}, 5, 5);
                       },
                       {5});
  EXPECT_EQ(outcome.bad, 0);
  EXPECT_EQ(open_checkpoint(disk, step_folder(5)).commit.head.id.save, "again");
}

TEST(CrashTest, RetentionLeavesAGoodOne) {
  CrashDisk disk;
  for (const int64_t step : {1, 2, 3, 4}) save(disk, step);
  const Outcome outcome = crash_everywhere(disk, [&] { apply_retention(disk, {.keep = 2}); }, {4});
  EXPECT_EQ(outcome.bad, 0);
  EXPECT_GT(outcome.images, 20);
  EXPECT_EQ(list_saves(disk).size(), 2U);
}

TEST(CrashTest, RecoveryMayBeCutOffToo) {
  CrashDisk disk;
  save(disk, 1);
  // The last changes of a save, where there is something to adopt: all of them under --all.
  const auto late = [&] { save(disk, 2); };
  if (tries_all()) {
    EXPECT_EQ(crash_everywhere(disk, late, {1, 2}, /*twice=*/true).bad, 0);
    return;
  }
  const auto before = disk.copy();
  late();
  const int64_t changes = disk.changes();
  // Stops at every moment, as a process that is killed does, and recovers under crashes.
  const int64_t first = rotation() % 3;
  for (int64_t stop = first; stop < changes; stop += 3) {
    const auto again = before->copy();
    again->fail_at(stop, /*stays=*/true);
    try {
      save(*again, 2);
    } catch (const IoError&) {
    }
    again->repair();
    const Outcome outcome = crash_everywhere(
        *again, [&] { recover_saves(*again, {.run = "run1", .generation = 2}); }, {1, 2});
    EXPECT_EQ(outcome.bad, 0) << stop;
  }
}

// Negative controls: without the syncs the same test finds disks without any good save, or with a
// save that is gone although it was committed.
TEST(CrashTest, WithoutSyncsItFails) {
  {
    CrashDisk disk;
    disk.ignore_folder_syncs = true;
    const Outcome outcome = crash_everywhere(disk,
                                             [&] {
                                               save(disk, 1);
                                               save(disk, 2);
                                               apply_retention(disk, {.keep = 1});
                                             },
                                             {1, 2});
    EXPECT_GT(outcome.bad, 0);
  }
  CrashDisk disk;
  disk.ignore_file_syncs = true;
  int64_t lost = 0;
  save(disk, 1);
  std::set<std::string> seen;
  for (const std::unique_ptr<CrashDisk>& image : disk.images(seen)) {
    if (step_after(*image) != 1) ++lost;  // committed, but without its bytes
  }
  EXPECT_GT(lost, 0);
}

// Each change of a save fails once, as on a full disk: the error says so, what was there is good,
// and the next save succeeds.
TEST(CrashTest, AFullDiskCostsOnlyTheSave) {
  CrashDisk probe;
  save(probe, 1);
  const auto before = probe.copy();
  const int64_t start = probe.changes();
  save(probe, 2);
  const int64_t changes = probe.changes() - start;
  for (int64_t change = 0; change < changes; ++change) {
    SCOPED_TRACE(change);
    const auto disk = before->copy();
    disk->fail_at(change, /*stays=*/false);
    bool failed = false;
    try {
      save(*disk, 2);
    } catch (const IoError&) {
      failed = true;
      abandon_save(*disk, id_of(2));
    }
    EXPECT_TRUE(failed);
    const auto newest = newest_good(*disk, {});
    ASSERT_TRUE(newest.has_value());
    save_sample(*disk, small_plan(), {"run1", 1, "s3"}, 3, 3);
    EXPECT_EQ(step_after(*disk), 3);
  }
}

TEST(CrashTest, NoRoomIsNoticedBeforeAByteIsWritten) {
  CrashDisk disk;
  disk.most_write = 100;
  begin_save(disk, id_of(1));
  EXPECT_THROW(write_shards(disk, small_plan(), id_of(1), 1, 1), IoError);
  for (const auto& [name, bytes] : disk.contents()) EXPECT_EQ(bytes, "") << name;
}

}  // namespace
}  // namespace tessera

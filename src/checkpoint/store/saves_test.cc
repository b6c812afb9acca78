#include "checkpoint/store/saves.h"

#include <gtest/gtest.h>

#include "base/testing/message_of.h"
#include "checkpoint/testing/crash_disk.h"
#include "checkpoint/testing/sample_save.h"

namespace tessera {
namespace {

using namespace testing;  // the samples

void save(CrashDisk& disk, int64_t step) {
  save_sample(disk, small_plan(), {"run1", 1, "s" + std::to_string(step)}, step, 1);
}

std::vector<std::string> folders(const FileOps& files) {
  std::vector<std::string> names;
  for (const StoredSave& save : list_saves(files)) names.push_back(save.folder);
  return names;
}

TEST(SavesTest, NamesAreReadBack) {
  EXPECT_EQ(step_folder(1000), "step-00001000");
  EXPECT_EQ(step_of_folder("step-00001000"), 1000);
  EXPECT_EQ(step_of_folder("step-123456789"), 123456789);
  for (const char* name : {"step-1000", "step-000001000", "step-0000100x", "step-", "latest",
                           "step-99999999999999999999", "step--0000100"}) {
    EXPECT_FALSE(step_of_folder(name)) << name;
  }
  const SaveId id{"ab_1", 18, "x"};
  EXPECT_EQ(in_progress_folder(id), ".inprogress-ab_1-18-x");
  EXPECT_EQ(in_progress_of_folder(".inprogress-ab_1-18-x"), id);
  for (const char* name : {".inprogress-a-x", ".inprogress-a-1-", ".inprogress-a-01-b",
                           ".inprogress-a-1-2-b", ".inprogress-a--1-b", "inprogress-a-1-b"}) {
    EXPECT_FALSE(in_progress_of_folder(name)) << name;
  }
  EXPECT_EQ(data_file(3, 16), "data-0003-of-0016.safetensors");
  EXPECT_EQ(crc_file_of(data_file(3, 16)), crc_file(3, 16));
  EXPECT_TRUE(is_shard_file("data-0003-of-0016.crc"));
  for (const char* name : {"data-3-of-0016.crc", "data-0003-of-0016.bin", "data-0003.crc",
                           "../data-0003-of-0016.crc", "data-0003-of-00x6.crc", ""}) {
    EXPECT_FALSE(is_shard_file(name)) << name;
  }
}

TEST(SavesTest, TheNewestGoodOneIsUsed) {
  CrashDisk disk;
  EXPECT_FALSE(newest_good(disk, {}).has_value());
  for (const int64_t step : {10, 20, 30}) save(disk, step);
  EXPECT_EQ(newest_good(disk, {})->step(), 30);
  disk.bytes_of("step-00000030/manifest.json")[40] ^= 1;
  std::vector<std::string> rejected;
  const auto note = [&](const StoredSave& save, const Error& why) {
    rejected.push_back(save.folder);
    EXPECT_EQ(why.code(), ExitCode::kCorrupt);
  };
  EXPECT_EQ(newest_good(disk, note)->step(), 20);
  EXPECT_EQ(rejected, std::vector<std::string>{"step-00000030"});
  // Nothing was renamed or removed.
  EXPECT_EQ(folders(disk).size(), 3U);
  // All damaged: not the same as none.
  disk.bytes_of("step-00000020/COMMIT")[3] ^= 1;
  disk.erase("step-00000010/state.json");
  const std::string message = message_of<Error>([&] { newest_good(disk, {}); });
  EXPECT_NE(message.find("step-00000030/manifest.json"), std::string::npos) << message;
}

TEST(SavesTest, RetentionKeepsWhatItShould) {
  std::vector<StoredSave> saves;
  for (int64_t step = 100; step <= 1000; step += 100) {
    saves.push_back(
        {.folder = step_folder(step), .committed = true, .pinned = step == 300, .step = step});
  }
  EXPECT_EQ(retired_by(saves, {.keep = 3, .keep_every = 500}),
            (std::vector<std::string>{step_folder(100), step_folder(200), step_folder(400),
                                      step_folder(600), step_folder(700)}));
  EXPECT_TRUE(retired_by(saves, {.keep = 20}).empty());
  EXPECT_EQ(retired_by(saves, {.keep = 0}).size(), 8U);  // the newest and the pinned stay
  saves.back().committed = false;                        // what is not committed counts for nothing
  EXPECT_EQ(retired_by(saves, {.keep = 9}).size(), 0U);
}

TEST(SavesTest, NothingIsRemovedWhileTheNewestIsDamaged) {
  CrashDisk disk;
  for (const int64_t step : {1, 2, 3}) save(disk, step);
  disk.bytes_of("step-00000003/state.json")[5] ^= 1;
  EXPECT_THROW(apply_retention(disk, {.keep = 1}), Error);
  EXPECT_EQ(folders(disk).size(), 3U);
  disk.bytes_of("step-00000003/state.json")[5] ^= 1;
  disk.put("step-00000001.pin", "");
  EXPECT_EQ(apply_retention(disk, {.keep = 1}), std::vector<std::string>{"step-00000002"});
}

// A run that had to go back behind damaged saves makes others before it reaches their steps again.
TEST(SavesTest, WhatTheRunWentBackBehindTakesNoPlace) {
  CrashDisk disk;
  for (const int64_t step : {10, 20, 30}) save(disk, step);
  disk.bytes_of("step-00000030/state.json")[5] ^= 1;
  save(disk, 14);
  EXPECT_TRUE(apply_retention(disk, {.keep = 2, .newest = 14}).empty());
  save(disk, 17);
  EXPECT_EQ(apply_retention(disk, {.keep = 2, .newest = 17}),
            std::vector<std::string>{"step-00000010"});
  EXPECT_EQ(folders(disk), (std::vector<std::string>{"step-00000014", "step-00000017",
                                                     "step-00000020", "step-00000030"}));
}

TEST(SavesTest, OnlyDeadSavesAreCollected) {
  CrashDisk disk;
  save(disk, 1);
  for (const SaveId& id :
       {SaveId{"run1", 1, "dead"}, SaveId{"run1", 2, "alive"}, SaveId{"other", 1, "foreign"}}) {
    begin_save(disk, id);
    write_shards(disk, small_plan(), id, 2, 2);
  }
  const RecoveryReport report = recover_saves(disk, {.run = "run1", .generation = 2});
  EXPECT_EQ(report.collected, std::vector<std::string>{".inprogress-run1-1-dead"});
  EXPECT_EQ(folders(disk), (std::vector<std::string>{".inprogress-other-1-foreign",
                                                     ".inprogress-run1-2-alive", "step-00000001"}));
  EXPECT_EQ(recover_saves(disk, {.all = true}).collected.size(), 2U);
  EXPECT_EQ(folders(disk), std::vector<std::string>{"step-00000001"});
}

TEST(SavesTest, WhatSomebodyElsePutThereStays) {
  CrashDisk disk;
  for (const int64_t step : {1, 2}) save(disk, step);
  disk.put("step-00000001/notes.txt", "mine");
  apply_retention(disk, {.keep = 1});
  EXPECT_EQ(disk.contents().at("step-00000001/notes.txt"), "mine");
  EXPECT_FALSE(disk.contents().contains("step-00000001/COMMIT"));
  EXPECT_EQ(newest_good(disk, {})->step(), 2);
}

// A run that went back to an earlier step saves the later ones again.
TEST(SavesTest, AStepIsSavedAgainBesideANoteThatSomebodyLeft) {
  CrashDisk disk;
  for (const int64_t step : {1, 2}) save(disk, step);
  disk.put("step-00000001/notes.txt", "mine");
  apply_retention(disk, {.keep = 1});
  for (const char* kept : {"step-00000001.kept", "step-00000001.kept-2"}) {
    save_sample(disk, small_plan(), {"run1", 2, "again"}, 1, 1);
    EXPECT_EQ(disk.contents().at(std::string(kept) + "/notes.txt"), "mine");
    quick_check(disk, open_checkpoint(disk, "step-00000001"));
    disk.put("step-00000001/notes.txt", "mine");  // beside a good one this time
  }
  EXPECT_EQ(folders(disk), (std::vector<std::string>{"step-00000001", "step-00000002"}));
}

TEST(SavesTest, WhatWasFoundDamagedIsNotTakenAgain) {
  CrashDisk disk;
  for (const int64_t step : {1, 2}) save(disk, step);
  LoadRules rules;
  rules.damaged.emplace("step-00000002", Error("block 7", ExitCode::kCorrupt));
  std::vector<std::string> why;
  const auto note = [&](const StoredSave&, const Error& error) { why.emplace_back(error.what()); };
  EXPECT_EQ(newest_good(disk, note, rules)->step(), 1);
  EXPECT_EQ(why, std::vector<std::string>{"block 7"});
  rules.damaged.emplace("step-00000001", Error("block 8", ExitCode::kCorrupt));
  EXPECT_EQ(message_of<Error>([&] { newest_good(disk, {}, rules); }), "block 7");
}

TEST(SavesTest, MissingSumsAreAbsentUnlessTheyMayBe) {
  CrashDisk disk;
  save(disk, 1);
  disk.erase("step-00000001/data-0000-of-0002.crc");
  EXPECT_THROW(newest_good(disk, {}), Error);
  const auto found = newest_good(disk, {}, {.allow_unchecked = true});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(shards_without_sums(disk, *found),
            std::vector<std::string>{"data-0000-of-0002.safetensors"});
  const SavePlan plan = small_plan();
  expect_values(disk, *found, plan.tensors, plan.writes[0], 1);
}

}  // namespace
}  // namespace tessera

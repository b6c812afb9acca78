// Checkpoints that something happened to: all of it is found, named, and never read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/sha256.h"
#include "base/testing/message_of.h"
#include "base/testing/share.h"
#include "checkpoint/store/saves.h"
#include "checkpoint/store/verify_checkpoint.h"
#include "checkpoint/testing/crash_disk.h"
#include "checkpoint/testing/sample_save.h"

namespace tessera {
namespace {

using namespace testing;  // the samples

const std::string kFolder = step_folder(9);

void save(CrashDisk& disk, const SavePlan& plan, const std::string& name = "s9") {
  save_sample(disk, plan, {"run1", 1, name}, 9, 9);
}

// Two shards of more than a block.
SavePlan large_plan() {
  const std::vector<TensorHead> tensors = {{"m", StoredType::kF32, {1000, 640}}};
  return plan_save(tensors, {{{0, {{0, 0}, {500, 640}}}}, {{0, {{500, 0}, {500, 640}}}}});
}

std::vector<std::string> files_of(const CrashDisk& disk) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : disk.contents()) {
    if (name.starts_with(kFolder + "/") && !bytes.empty()) names.push_back(name);
  }
  return names;
}

// Quick verification sees all but the data; deep sees everything; and it is never loaded.
void expect_found(CrashDisk& disk, const std::string& what) {
  const CheckReport report = verify_checkpoint(disk, kFolder, /*deep=*/true, 1);
  EXPECT_NE(report.code(), ExitCode::kOk) << what;
  const bool names_it =
      !report.problems.empty() && report.problems.front().text.find(kFolder) != std::string::npos;
  EXPECT_TRUE(names_it) << what << ": " << report.problems.front().text;
}

TEST(DamageTest, EveryFlippedBitIsFound) {
  Dice dice(static_cast<uint64_t>(rotation()) + 1);
  CrashDisk small, large;
  save(small, small_plan());
  save(large, large_plan());
  const auto flip = [&](CrashDisk& disk, int64_t times) {
    const std::vector<std::string> names = files_of(disk);
    for (int64_t i = 0; i < times; ++i) {
      const std::string& name = names[static_cast<size_t>(i) % names.size()];
      std::string& bytes = disk.bytes_of(name);
      const auto at = static_cast<size_t>(roll(dice, 0, std::ssize(bytes) - 1));
      const auto mask = static_cast<char>(1 << roll(dice, 0, 7));
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      expect_found(disk, fmt::format("{} byte {} mask {}", name, at, mask));
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
    }
    EXPECT_EQ(verify_checkpoint(disk, kFolder, true, 1).code(), ExitCode::kOk);
  };
  flip(small, 850);
  flip(large, 150);
}

TEST(DamageTest, ABadBlockIsNamedAndNotRead) {
  CrashDisk disk;
  save(disk, large_plan());
  const std::string name = kFolder + "/" + data_file(1, 2);
  disk.bytes_of(name)[(1 << 20) + 77] ^= 4;
  EXPECT_EQ(verify_checkpoint(disk, kFolder, /*deep=*/false, 1).code(), ExitCode::kOk);
  const CheckReport deep = verify_checkpoint(disk, kFolder, /*deep=*/true);
  ASSERT_EQ(deep.problems.size(), 1U);
  EXPECT_EQ(deep.code(), ExitCode::kCorrupt);
  EXPECT_EQ(deep.checked_blocks, 4);
  EXPECT_NE(deep.problems[0].text.find(name + "' is damaged: block 1 (bytes 1048576 to"),
            std::string::npos)
      << deep.problems[0].text;
  // Memory is untouched where the block lies; the other block can be had.
  const CheckpointFolder checkpoint = open_checkpoint(disk, kFolder);
  std::vector<std::byte> memory(640 * 4, std::byte{0x11});
  const auto read_row = [&](int64_t row) {
    const WantedBox wanted{
        "m", StoredType::kF32, {1000, 640}, placed_dense({{row, 0}, {1, 640}}), memory.data()};
    read_boxes(disk, checkpoint, {&wanted, 1});
  };
  EXPECT_THROW(read_row(999), Error);
  EXPECT_EQ(memory, std::vector<std::byte>(640 * 4, std::byte{0x11}));
  EXPECT_NO_THROW(read_row(500));
}

TEST(DamageTest, EveryLengthIsTheRightOne) {
  CrashDisk disk;
  save(disk, small_plan());
  for (const std::string& name : files_of(disk)) {
    const std::string whole = disk.bytes_of(name);
    const size_t size = whole.size();
    for (const size_t length : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{63}, size / 3,
                                size / 2, size - 64, size - 5, size - 4, size - 1}) {
      if (length >= size) continue;
      disk.bytes_of(name) = whole.substr(0, length);
      expect_found(disk, fmt::format("{} cut to {}", name, length));
    }
    for (const std::string& more :
         {std::string("\n"), std::string(1, '\0'), std::string(64, 'x')}) {
      disk.bytes_of(name) = whole + more;
      expect_found(disk, name + " with more");
    }
    disk.bytes_of(name) = whole;
  }
}

TEST(DamageTest, MissingFilesAreIncomplete) {
  for (const std::string& name : {std::string("COMMIT"), std::string("manifest.json"),
                                  std::string("state.json"), data_file(0, 2), crc_file(1, 2)}) {
    CrashDisk disk;
    save(disk, small_plan());
    disk.erase(kFolder + "/" + name);
    const CheckReport report = verify_checkpoint(disk, kFolder, false);
    EXPECT_EQ(report.code(), ExitCode::kAbsent) << name;
    EXPECT_NE(report.problems.front().text.find(name), std::string::npos);
  }
}

TEST(DamageTest, SwappedDoubledAndForeignShardsAreFound) {
  CrashDisk disk, other;
  save(disk, small_plan());
  save(other, small_plan(), "foreign");
  const std::string first = kFolder + "/" + data_file(0, 2),
                    second = kFolder + "/" + data_file(1, 2);
  const std::string first_sums = kFolder + "/" + crc_file(0, 2);
  const std::string second_sums = kFolder + "/" + crc_file(1, 2);
  const auto intact = disk.copy();
  const auto with = [&](const std::string& what, const std::function<void(CrashDisk&)>& edit) {
    const auto edited = intact->copy();
    edit(*edited);
    const CheckReport report = verify_checkpoint(*edited, kFolder, false);
    EXPECT_EQ(report.code(), ExitCode::kCorrupt) << what;
  };
  with("swapped", [&](CrashDisk& d) { std::swap(d.bytes_of(first), d.bytes_of(second)); });
  with("swapped with their sums", [&](CrashDisk& d) {
    std::swap(d.bytes_of(first), d.bytes_of(second));
    std::swap(d.bytes_of(first_sums), d.bytes_of(second_sums));
  });
  with("doubled", [&](CrashDisk& d) { d.bytes_of(second) = d.bytes_of(first); });
  with("of another save", [&](CrashDisk& d) { d.bytes_of(first) = other.bytes_of(first); });
  with("of another save with its sums", [&](CrashDisk& d) {
    d.bytes_of(first) = other.bytes_of(first);
    d.bytes_of(first_sums) = other.bytes_of(first_sums);
  });
  with("one too many", [&](CrashDisk& d) { d.put(kFolder + "/" + data_file(0, 3), "x"); });
  with("another manifest", [&](CrashDisk& d) {
    d.bytes_of(kFolder + "/manifest.json") = other.bytes_of(kFolder + "/manifest.json");
  });
  with("another COMMIT", [&](CrashDisk& d) {
    d.bytes_of(kFolder + "/COMMIT") = other.bytes_of(kFolder + "/COMMIT");
  });
  // A note that somebody left there is no damage.
  disk.put(kFolder + "/notes.txt", "good one");
  EXPECT_EQ(verify_checkpoint(disk, kFolder, true).code(), ExitCode::kOk);
}

// Rewrites the version everywhere, with hashes and sums that fit.
void set_version(CrashDisk& disk, const std::string& version) {
  const auto edit = [&](const std::string& name) {
    std::string& text = disk.bytes_of(kFolder + "/" + name);
    nlohmann::json json = nlohmann::json::parse(text.substr(0, text.rfind('}') + 1));
    json["version"] = nlohmann::json::parse(version);
    json["from_the_future"] = {{"deep", {1, 2}}};
    return json;
  };
  nlohmann::json commit = edit("COMMIT");
  for (const std::string name : {"manifest.json", "state.json"}) {
    const std::string text = edit(name).dump();
    disk.bytes_of(kFolder + "/" + name) = text;
    commit[name.substr(0, name.find('.'))] = sha256_hex(text);
  }
  const std::string body = commit.dump() + "\n";
  disk.bytes_of(kFolder + "/COMMIT") = body + fmt::format("crc32c {:08x}\n", crc32c(body));
}

TEST(DamageTest, AnotherMajorVersionIsRefusedAMinorOneIsRead) {
  CrashDisk disk;
  save(disk, small_plan());
  set_version(disk, "[1,7]");
  EXPECT_EQ(verify_checkpoint(disk, kFolder, true).code(), ExitCode::kOk);
  const CheckpointFolder checkpoint = open_checkpoint(disk, kFolder);
  EXPECT_EQ(checkpoint.manifest.head.version, (FormatVersion{1, 7}));
  EXPECT_EQ(checkpoint.state.at("from_the_future").dump(), R"({"deep":[1,2]})");
  set_version(disk, "[2,0]");
  const CheckReport report = verify_checkpoint(disk, kFolder, true);
  EXPECT_EQ(report.code(), ExitCode::kVersion);
  EXPECT_NE(report.problems[0].text.find("version 2.0 of the format of checkpoints, but this "
                                         "Tessera reads version 1"),
            std::string::npos);
  // An older one does not stand in for it.
  save_sample(disk, small_plan(), {"run1", 1, "s8"}, 8, 8);
  EXPECT_THROW(newest_good(disk, {}), Error);
}

}  // namespace
}  // namespace tessera

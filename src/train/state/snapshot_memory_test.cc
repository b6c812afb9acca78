#include "train/state/snapshot_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "launch/unique_fd.h"

namespace tessera {
namespace {

constexpr int64_t kBytes = (int64_t{2} << 20) + 100;  // three blocks, the last one short

class SnapshotMemoryTest : public ::testing::Test {
 protected:
  SnapshotMemoryTest() : file_(::memfd_create("test", MFD_CLOEXEC)) {}

  // As a process that was started just now.
  [[nodiscard]] std::unique_ptr<SnapshotMemory> open(int rank, uint64_t key = 7) const {
    return std::make_unique<SnapshotMemory>(file_.get(), sizes_, rank, key);
  }
  void fill(SnapshotMemory& memory, size_t place, int value) const {
    std::memset(memory.copy(place), value, static_cast<size_t>(sizes_[0]));
  }
  void take(SnapshotMemory& memory, size_t place, int64_t step) const {
    memory.open(place);
    fill(memory, place, static_cast<int>(step));
    memory.seal(place, {step, 1}, "note of " + std::to_string(step));
  }

  UniqueFd file_;
  std::vector<int64_t> sizes_{kBytes, 4096, 0};
};

TEST_F(SnapshotMemoryTest, WhatIsSealedOutlivesWhoMadeIt) {
  {
    const auto memory = open(0);
    EXPECT_TRUE(memory->sealed().empty());
    take(*memory, 0, 4);
    take(*memory, 1, 6);
  }
  const auto memory = open(0);
  const auto sealed = memory->sealed();
  ASSERT_EQ(sealed.size(), 2U);
  EXPECT_EQ(sealed[0].name, (SnapshotName{4, 1}));
  EXPECT_EQ(sealed[1].name, (SnapshotName{6, 1}));
  EXPECT_EQ(sealed[0].problem + sealed[1].problem, "");
  // Another rank sees them too, and has none of its own.
  const auto other = open(1);
  EXPECT_TRUE(other->sealed().empty());
  const std::byte* const copy = other->find(0, {6, 1});
  ASSERT_NE(copy, nullptr);
  EXPECT_TRUE(std::all_of(copy, copy + kBytes, [](std::byte b) { return b == std::byte{6}; }));
  EXPECT_EQ(other->note(0, {6, 1}), "note of 6");
  EXPECT_EQ(other->find(0, {6, 2}), nullptr);
  EXPECT_EQ(other->find(1, {6, 1}), nullptr);
}

TEST_F(SnapshotMemoryTest, APlaceCountsOnlyBetweenSealAndOpen) {
  const auto memory = open(0);
  take(*memory, 0, 4);
  take(*memory, 1, 6);
  memory->open(0);
  fill(*memory, 0, 8);  // and here it dies
  const auto sealed = open(0)->sealed();
  ASSERT_EQ(sealed.size(), 1U);
  EXPECT_EQ(sealed[0].name.step, 6);
}

// One bit anywhere: in every block, in the sums, in the head, in the note.
TEST_F(SnapshotMemoryTest, FindsEveryFlippedBit) {
  const auto memory = open(0);
  take(*memory, 0, 4);
  std::byte* const copy = memory->copy(0);
  const int64_t region = memory->bytes();
  std::byte* const begin = memory->copies() - (region - memory->copies_bytes());
  std::vector<std::byte*> victims = {copy, copy + kBytes / 2, copy + kBytes - 1};
  // The first place: the sum, four numbers, the sums of three blocks, the note.
  for (int64_t at = 4; at < 8 + 32 + 12 + 9; ++at) victims.push_back(begin + at);
  int found = 0;
  for (std::byte* const victim : victims) {
    *victim ^= std::byte{16};
    const auto sealed = memory->sealed();
    // With another key it is not one of these at all.
    found += sealed.empty() || !sealed[0].problem.empty() ? 1 : 0;
    *victim ^= std::byte{16};
  }
  EXPECT_EQ(found, static_cast<int>(victims.size()));
  EXPECT_EQ(memory->sealed().at(0).problem, "");
}

TEST_F(SnapshotMemoryTest, WhatIsOfAnotherRunOrMeshDoesNotCount) {
  take(*open(0), 0, 4);
  EXPECT_TRUE(open(0, /*key=*/8)->sealed().empty());
  EXPECT_EQ(open(0)->sealed().size(), 1U);
  // Another layout, and so another size; what lies there then is nobody's.
  const std::vector<int64_t> other = {kBytes / 2, kBytes};
  EXPECT_TRUE(SnapshotMemory(file_.get(), other, 0, 8).sealed().empty());
  EXPECT_TRUE(SnapshotMemory(file_.get(), other, 1, 8).sealed().empty());
}

TEST_F(SnapshotMemoryTest, TakesWhatItSays) {
  int64_t all = 0;
  for (const int64_t bytes : sizes_) all += SnapshotMemory::bytes_for(bytes);
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(open(rank)->bytes(), SnapshotMemory::bytes_for(sizes_[static_cast<size_t>(rank)]));
  }
  struct stat status {};
  ASSERT_EQ(::fstat(file_.get(), &status), 0);
  EXPECT_EQ(status.st_size, all);
  EXPECT_EQ(status.st_blocks * 512, all);  // room is taken, not only promised
}

TEST_F(SnapshotMemoryTest, MemoryThatIsNotToBeHadIsRefused) {
  sizes_ = {int64_t{1} << 60};
  try {
    (void)open(0);
    FAIL() << "there is that much memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDoesNotFit);
    EXPECT_NE(std::string(error.what()).find("memory_every = 0"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera

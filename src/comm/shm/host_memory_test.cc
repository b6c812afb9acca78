#include "comm/shm/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/testing/test_folder.h"

namespace tessera {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A machine with 16 GiB, 12 of them available.
class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest() {
    write("proc/meminfo",
          "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:   12582912 kB\n");
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.path(name)).parent_path());
    folder_.write(name, text);
  }
  void write(const std::string& name, int64_t number) { write(name, std::to_string(number)); }
  [[nodiscard]] HostMemory read() const { return host_memory(folder_.path()); }

  testing::TestFolder folder_;
};

TEST_F(HostMemoryTest, WithoutAGroupItIsTheMachines) {
  const HostMemory memory = read();
  EXPECT_EQ(memory.total_bytes, 16 * kGiB);
  EXPECT_EQ(memory.available_bytes, 12 * kGiB);
  EXPECT_EQ(memory.group, "");
}

TEST_F(HostMemoryTest, AGroupOfVersion2Limits) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", 4 * kGiB);
  write("sys/fs/cgroup/memory.current", 3 * kGiB);
  EXPECT_EQ(read().total_bytes, 4 * kGiB);
  EXPECT_EQ(read().available_bytes, 1 * kGiB);
  EXPECT_EQ(read().group, folder_.path("sys/fs/cgroup/"));
  // Files that were read are given back when somebody needs the memory.
  write("sys/fs/cgroup/memory.stat",
        "anon 1\nfile 2\ninactive_file 1073741824\nactive_file 1073741824\n");
  EXPECT_EQ(read().available_bytes, 3 * kGiB);
}

TEST_F(HostMemoryTest, SoDoesOneAboveTheProcesssOwn) {
  write("proc/self/cgroup", "1:name=systemd:/a\n0::/jobs/job-7/step-1\n");
  write("sys/fs/cgroup/jobs/job-7/step-1/memory.max", "max");
  write("sys/fs/cgroup/jobs/job-7/step-1/memory.current", 1);
  write("sys/fs/cgroup/jobs/job-7/memory.max", 2 * kGiB);
  write("sys/fs/cgroup/jobs/job-7/memory.current", kGiB);
  EXPECT_EQ(read().total_bytes, 2 * kGiB);
  EXPECT_EQ(read().available_bytes, kGiB);
}

TEST_F(HostMemoryTest, AGroupOfVersion1Limits) {
  write("proc/self/cgroup", "3:cpu,cpuacct:/x\n9:hugetlb,memory:/docker/0123\n0::/elsewhere\n");
  // The container sees its own folder as the topmost one.
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", 3 * kGiB);
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", 2 * kGiB);
  write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 536870912\n");
  EXPECT_EQ(read().total_bytes, 3 * kGiB);
  EXPECT_EQ(read().available_bytes, kGiB + kGiB / 2);
}

TEST_F(HostMemoryTest, NoLimitIsNoLimit) {
  write("proc/self/cgroup", "9:memory:/\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", int64_t{9223372036854771712});
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", 2 * kGiB);
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", 2 * kGiB);
  EXPECT_EQ(read().total_bytes, 16 * kGiB);
  EXPECT_EQ(read().available_bytes, 12 * kGiB);
  EXPECT_EQ(read().group, "");
}

TEST_F(HostMemoryTest, AFullGroupHasNothingLeft) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", 1 * kGiB);
  write("sys/fs/cgroup/memory.current", 2 * kGiB);
  EXPECT_EQ(read().available_bytes, 0);
}

TEST_F(HostMemoryTest, KillsForWantOfMemoryAreCounted) {
  EXPECT_FALSE(memory_kills(folder_.path()).has_value());
  write("proc/vmstat", "nr_free_pages 1\noom_kill 3\n");
  EXPECT_EQ(memory_kills(folder_.path())->machine, 3);
  EXPECT_EQ(memory_kills(folder_.path())->group, 0);
  write("proc/self/cgroup", "9:memory:/a\n0::/jobs/job-7\n");
  write("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(memory_kills(folder_.path())->group, 2) << "the topmost folder is all there is";
  // The innermost group counts, not a neighbour in the one above it.
  write("sys/fs/cgroup/jobs/memory.events", "low 0\noom 9\noom_kill 9\noom_group_kill 0\n");
  write("sys/fs/cgroup/jobs/job-7/memory.events", "low 0\noom 1\noom_kill 1\n");
  EXPECT_EQ(memory_kills(folder_.path())->group, 1);
  EXPECT_EQ(memory_kills(folder_.path())->machine, 3);
}

TEST(HostMemory, OfThisMachineIsKnown) {
  const HostMemory memory = host_memory();
  EXPECT_GT(memory.available_bytes, 0);
  EXPECT_LE(memory.available_bytes, memory.total_bytes);
  EXPECT_LT(memory.total_bytes, INT64_MAX);
}

}  // namespace
}  // namespace tessera

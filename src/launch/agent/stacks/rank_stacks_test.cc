#include "launch/agent/stacks/rank_stacks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

#include "comm/work_note.h"
#include "launch/agent/stacks/code_names.h"
#include "launch/unique_fd.h"

namespace tessera {
// Not in the anonymous namespace, so that the linker keeps their names.
void spin_until(const std::atomic<bool>& stop, std::atomic<bool>& there) {
  there.store(true);
  while (!stop.load(std::memory_order_relaxed)) {
  }
}
void sleep_until(std::mutex& mutex, std::condition_variable& woken, const bool& stop,
                 std::atomic<bool>& there) {
  std::unique_lock lock(mutex);
  there.store(true);
  woken.wait(lock, [&] { return stop; });
}

namespace {

uint64_t address_of(const void* at) { return reinterpret_cast<uintptr_t>(at); }

void wait_for(const std::atomic<bool>& there) {
  while (!there.load()) std::this_thread::yield();
}

TEST(CodeNamesTest, NamesFunctionsOfTheProgramAndOfItsLibraries) {
  MappedFiles files;
  const CodeNames names(getpid(), files);
  const auto here = address_of(reinterpret_cast<const void*>(&spin_until));
  EXPECT_EQ(names.name(here, false), "tessera::spin_until");
  EXPECT_NE(names.name(here, true), "tessera::spin_until");  // the byte before it is another's
  const void* const exported = ::dlsym(RTLD_DEFAULT, "pthread_create");
  ASSERT_NE(exported, nullptr);
  EXPECT_NE(names.name(address_of(exported), false).find("pthread_create"), std::string::npos);
  EXPECT_EQ(names.name(16, false), "0x10");
}

TEST(CodeNamesTest, HasNoNamesForAFileThatIsAnotherOneByNow) {
  MappedFiles files;
  EXPECT_TRUE(files.functions_of(getpid(), "/etc/passwd", 0).empty());
}

// What is damaged may say anything, and may have no end.
TEST(CodeNamesTest, ADamagedFileHasWrongFunctionsAtWorst) {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  const std::string whole = bytes.str();
  ASSERT_GT(whole.size(), 4096U);
  uint64_t sections = 0;
  whole.copy(reinterpret_cast<char*>(&sections), sizeof(sections), 0x28);
  const UniqueFd copy(::memfd_create("damaged", MFD_CLOEXEC));
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = whole.substr(0, i % 4 == 0 ? random() % whole.size() : whole.size());
    for (int flips = 0; flips < 4; ++flips) {
      // Where the headers are: of the file, of its parts, of its sections.
      const uint64_t places[] = {random() % 64, 64 + random() % 700,
                                 sections + random() % (whole.size() - sections)};
      const uint64_t place = places[random() % 3];
      if (place < damaged.size()) damaged[place] = static_cast<char>(random());
    }
    ASSERT_EQ(::ftruncate(copy.get(), 0), 0);
    ASSERT_EQ(::pwrite(copy.get(), damaged.data(), damaged.size(), 0),
              static_cast<ssize_t>(damaged.size()));
    const ElfFunctions functions(copy.get());
    for (int asked = 0; asked < 50; ++asked) (void)functions.at(random() % whole.size());
  }
}

TEST(RankStacksTest, SaysWhereThreadsSpinAndWait) {
  const ShmMemory memory = ShmMemory::create({.ranks = 2, .bytes_per_rank = 1 << 20});
  const auto world = attach_shm_world({.fd = memory.fd(), .rank = 0, .answers_for_stacks = true});
  std::atomic<bool> stop_spinning{false};
  std::atomic<bool> spins{false};
  std::thread spinning([&] { spin_until(stop_spinning, spins); });
  std::mutex mutex;
  std::condition_variable woken;
  bool stop_sleeping = false;
  std::atomic<bool> sleeps{false};
  std::thread sleeping([&] { sleep_until(mutex, woken, stop_sleeping, sleeps); });
  wait_for(spins);
  wait_for(sleeps);
  world->work_note(0)->set_stream("compute");
  world->work_note(0)->begin(3, 1, "linear", "head");

  // Rank 1 is not there.
  const RankStacks stacks = ask_for_stacks(memory, {getpid(), 0});
  stop_spinning.store(true);
  {
    const std::scoped_lock lock(mutex);
    stop_sleeping = true;
  }
  woken.notify_all();
  spinning.join();
  sleeping.join();

  ASSERT_EQ(stacks.at.size(), 2U);
  EXPECT_NE(stacks.at[0].find("tessera::ask_for_stacks"), std::string::npos) << stacks.at[0];
  EXPECT_EQ(stacks.at[1], "");
  for (const char* part : {"rank 0 (pid ", "compute: instruction 3, linear 'head', micro-batch 1",
                           "tessera::spin_until", "tessera::sleep_until", ", runs", ", sleeps",
                           "rank 1: no process"}) {
    EXPECT_NE(stacks.text.find(part), std::string::npos) << part << "\n" << stacks.text;
  }
}

// A process that has no handler ignores the question; the system still knows something.
TEST(RankStacksTest, WaitsNoLongerThanItSays) {
  const ShmMemory memory = ShmMemory::create({.ranks = 1, .bytes_per_rank = 1 << 20});
  const RankStacks stacks = ask_for_stacks(memory, {getpid()});
  EXPECT_EQ(stacks.at[0], "");
  EXPECT_NE(stacks.text.find("it has not said"), std::string::npos) << stacks.text;
}

}  // namespace
}  // namespace tessera

// Ranks as processes over shared memory, to which something bad happens.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/shm/shm_world.h"
#include "comm/testing/forked_ranks.h"

namespace tessera::testing {

struct FaultOptions {
  int ranks = 3;
  std::chrono::milliseconds timeout{20'000};
  std::chrono::milliseconds slow_after{10'000};
};

// Warnings of a rank arrive as lines "warning: …".
class FaultWorld {
 public:
  using Body = std::function<void(CommWorld& world, const RankVoice& voice)>;

  FaultWorld(const FaultOptions& options, const Body& body);

  [[nodiscard]] ForkedRanks& ranks() { return ranks_; }
  [[nodiscard]] ShmMemory& memory() { return memory_; }
  // "rank 1 (pid 4711": how messages name a rank.
  [[nodiscard]] std::string name_of(int rank) const;

 private:
  ShmMemory memory_;
  ForkedRanks ranks_;
};

// Checks after every test that nothing of it is left: no process, no shared memory.
class FaultTest : public ::testing::Test {
 protected:
  void TearDown() override;
};

bool contains(const std::string& text, const std::string& part);

// Ranks leave far sooner, but the machine may be busy.
constexpr std::chrono::milliseconds kSoon{3'000};

// Every rank but `victim` ended by itself, with an error that contains all `parts`, soon after
// `since`. Returns how long the last one took.
std::chrono::microseconds expect_survivors_leave(const std::vector<RankEnd>& ends, int victim,
                                                 TestClock::time_point since,
                                                 const std::vector<std::string>& parts);

// Waits as a rank that does not call what its peers wait for: until the world ends, bounded.
void wait_for_abort(const CommWorld& world);

// Any collective, again and again: until the world ends, bounded.
void call_for_ever(Communicator& group, const CollectiveCall& call);

}  // namespace tessera::testing

#include "launch/kill_cause.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// 2 GiB planned on a machine of 16 GiB, of which 12 are free; the kernel ended nothing.
KillFacts small_run() {
  return {.planned_bytes = 2 * kGiB,
          .memory = {.total_bytes = 16 * kGiB, .available_bytes = 12 * kGiB},
          .meanwhile = MemoryKills{}};
}

TEST(KillCauseTest, ASmallRunWasKilledBySomebody) {
  EXPECT_EQ(kill_cause(small_run()),
            "not by the kernel for want of memory (planned 2.0 GiB, the machine has 16.0 GiB): "
            "another process did it; journalctl or the log of the batch system may say which");
}

TEST(KillCauseTest, WhereTheKernelDoesNotCountNothingIsClaimed) {
  KillFacts facts = small_run();
  facts.meanwhile = std::nullopt;
  EXPECT_EQ(kill_cause(facts),
            "planned 2.0 GiB, the machine has 16.0 GiB; dmesg says whether memory ran out");
}

TEST(KillCauseTest, ARunNearTheLimitWasProbablyTooLarge) {
  KillFacts facts = small_run();
  facts.planned_bytes = 11 * kGiB;  // of the 12 that were free
  EXPECT_EQ(kill_cause(facts),
            "probably out of memory: planned 11.0 GiB, the machine has 16.0 GiB");
  facts.planned_bytes = 10 * kGiB;
  EXPECT_EQ(kill_cause(facts).find("probably"), std::string::npos) << kill_cause(facts);
  facts.memory = {.total_bytes = 11 * kGiB, .available_bytes = 11 * kGiB, .group = "/a/group/"};
  EXPECT_EQ(kill_cause(facts),
            "probably out of memory: planned 10.0 GiB, its control group has 11.0 GiB");
}

TEST(KillCauseTest, WhatTheKernelCountsComesFirst) {
  KillFacts facts = small_run();
  facts.meanwhile = MemoryKills{.machine = 2};
  EXPECT_EQ(kill_cause(facts),
            "probably out of memory: meanwhile the kernel ended 2 processes for want of it; "
            "planned 2.0 GiB, the machine has 16.0 GiB");
  facts.meanwhile = MemoryKills{.machine = 1, .group = 1};
  facts.memory = {.total_bytes = 3 * kGiB, .available_bytes = 3 * kGiB, .group = "/a/group/"};
  EXPECT_EQ(kill_cause(facts),
            "out of memory: meanwhile the kernel ended 1 process of its control group; planned "
            "2.0 GiB, its control group has 3.0 GiB");
}

}  // namespace
}  // namespace tessera

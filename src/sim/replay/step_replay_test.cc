#include "sim/replay/step_replay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "sim/testing/test_runs.h"

namespace tessera {
namespace {

using testing::Compiled;
using testing::kMeshes;
using testing::run_of;
using testing::two_nodes;
using testing::UnitTimes;

// Ends of all instructions by going over everything until nothing changes, every transfer alone on
// its links: the longest way through all dependencies.
class CriticalPath {
 public:
  CriticalPath(const RankPrograms& programs, const Times& times)
      : programs_(programs), times_(times) {}

  double length() {
    const auto world = static_cast<size_t>(programs_.world());
    end_.resize(world);
    for (size_t rank = 0; rank < world; ++rank) {
      end_[rank].assign(instructions(rank).size(), -1);
    }
    bool moved = true;
    while (std::exchange(moved, false)) {
      for (size_t rank = 0; rank < world; ++rank) {
        for (size_t i = 0; i < instructions(rank).size(); ++i) {
          if (end_[rank][i] < 0 && settle(rank, i)) moved = true;
        }
      }
    }
    double longest = 0;
    for (const auto& ends : end_) {
      for (const double end : ends) {
        EXPECT_GE(end, 0);
        longest = std::max(longest, end);
      }
    }
    return longest;
  }

 private:
  [[nodiscard]] const std::vector<Instruction>& instructions(size_t rank) const {
    return programs_.program(static_cast<int>(rank)).instructions;
  }

  // When instruction i could begin, or -1.
  double ready(size_t rank, size_t i) {
    const auto& list = instructions(rank);
    double begin = 0;
    for (size_t before = i; before-- > 0;) {
      if (list[before].stream != list[i].stream) continue;
      begin = end_[rank][before];
      break;
    }
    if (begin < 0) return -1;
    for (const int event : list[i].waits) {
      const auto signaller = std::find_if(
          list.begin(), list.end(), [event](const Instruction& x) { return x.signal == event; });
      const double end = end_[rank][static_cast<size_t>(signaller - list.begin())];
      if (end < 0) return -1;
      begin = std::max(begin, end);
    }
    return begin;
  }

  // Which call between these ranks it is: names are the same on all sides.
  [[nodiscard]] bool meets(const Instruction& a, const Instruction& b) const {
    return a.stream == b.stream && a.name == b.name && a.micro_batch == b.micro_batch &&
           a.group == b.group && a.collective == b.collective;
  }

  bool settle(size_t rank, size_t i) {
    const Instruction& instruction = instructions(rank)[i];
    const Program& program = programs_.program(static_cast<int>(rank));
    double begin = ready(rank, i);
    if (begin < 0) return false;
    if (instruction.stream == StreamKind::kCompute) {
      end_[rank][i] = begin + times_.kernel_s(program, instruction);
      return true;
    }
    std::vector<int> members = members_of(program, group_of(instruction));
    if (instruction.peer >= 0) {
      members = {static_cast<int>(rank), members[static_cast<size_t>(instruction.peer)]};
      std::sort(members.begin(), members.end());
    }
    std::vector<std::pair<size_t, size_t>> parties;
    const Program* speaker = &program;
    const Instruction* spoken = &instruction;
    for (const int member : members) {
      const auto other = static_cast<size_t>(member);
      const auto& list = instructions(other);
      for (size_t k = 0; k < list.size(); ++k) {
        if (other == rank ? k != i : end_[other][k] >= 0 || !meets(list[k], instruction)) continue;
        const double here = ready(other, k);
        if (here < 0) return false;
        begin = std::max(begin, here);
        parties.emplace_back(other, k);
        if (list[k].op == OpKind::kSend) {
          speaker = &programs_.program(member);
          spoken = &list[k];
        }
        break;
      }
    }
    if (parties.size() != members.size()) return false;
    const TransferTime time = times_.transfer(*speaker, *spoken, members);
    for (const auto& [other, k] : parties) end_[other][k] = begin + time.latency_s + time.wire_s;
    return true;
  }

  const RankPrograms& programs_;
  const Times& times_;
  std::vector<std::vector<double>> end_;
};

double busiest_kernels(const StepTimeline& timeline) {
  double busiest = 0;
  for (const RankTimeline& rank : timeline.ranks) {
    double busy = 0;
    for (size_t i = 0; i < rank.times.size(); ++i) {
      if (rank.program->instructions[i].stream == StreamKind::kCompute) {
        busy += rank.times[i].end - rank.times[i].active;
      }
    }
    busiest = std::max(busiest, busy);
  }
  return busiest;
}

TEST(StepReplayTest, IsTheLongestWayThroughAllDependenciesWhereLinksAreNotShared) {
  for (const char* mesh : kMeshes) {
    const Compiled run = run_of(mesh);
    RooflineMachine machine = two_nodes();
    for (RooflineLevel& level : machine.levels) level.bandwidth = 1e30;  // never two on a wire
    const RooflineTimes times(machine);
    const double longest = CriticalPath(run.programs, times).length();
    const double makespan = replay_step(run.programs, times, {.fold = false}).makespan;
    EXPECT_NEAR(makespan, longest, 1e-9 * longest) << mesh;
  }
}

TEST(StepReplayTest, IsNeverShorterThanTheLongestWayOrTheBusiestRank) {
  for (const char* mesh : kMeshes) {
    const Compiled run = run_of(mesh);
    const RooflineTimes times(two_nodes());
    const StepTimeline timeline = replay_step(run.programs, times);
    EXPECT_GE(timeline.makespan * (1 + 1e-9), CriticalPath(run.programs, times).length()) << mesh;
    EXPECT_GE(timeline.makespan * (1 + 1e-9), busiest_kernels(timeline)) << mesh;
  }
}

TEST(StepReplayTest, OneRankOfEachClassGivesWhatAllGive) {
  for (const char* mesh : kMeshes) {
    const Compiled run = run_of(mesh);
    for (const bool shared : {false, true}) {
      RooflineMachine machine = two_nodes();
      machine.levels[1].shared = shared;
      machine.kernel_share = 0.2;
      const RooflineTimes times(machine);
      for (const bool slow : {false, true}) {
        ReplayOptions options;
        if (slow) options.slow = {{run.programs.world() - 1, 1.5}};
        const StepTimeline folded = replay_step(run.programs, times, options);
        options.fold = false;
        const StepTimeline all = replay_step(run.programs, times, options);
        EXPECT_EQ(all.classes.count(), run.programs.world());
        EXPECT_NEAR(folded.makespan, all.makespan, 1e-9 * all.makespan) << mesh;
        for (int rank = 0; rank < run.programs.world(); ++rank) {
          const auto of_class =
              static_cast<size_t>(folded.classes.of_rank[static_cast<size_t>(rank)]);
          const auto& mine = folded.ranks[of_class].times;
          const auto& full = all.ranks[static_cast<size_t>(rank)].times;
          ASSERT_EQ(mine.size(), full.size()) << mesh;
          for (size_t i = 0; i < mine.size(); ++i) {
            ASSERT_NEAR(mine[i].end, full[i].end, 1e-9 * all.makespan)
                << mesh << " rank " << rank << " instruction " << i;
          }
        }
      }
    }
  }
}

TEST(StepReplayTest, ReplicasAreOneClass) {
  const Compiled run = run_of("pp=2,dp=4");
  const RooflineTimes times(two_nodes());
  EXPECT_EQ(replay_step(run.programs, times).classes.count(), 2);
  // The slow one, its replicas, and what the other stage has of both.
  EXPECT_EQ(replay_step(run.programs, times, {.slow = {{3, 2.0}}}).classes.count(), 4);
}

TEST(StepReplayTest, ASlowRankNeverMakesTheStepFaster) {
  for (const char* mesh : kMeshes) {
    const Compiled run = run_of(mesh);
    const RooflineTimes times(two_nodes());
    const double before = replay_step(run.programs, times).makespan;
    for (int rank = 0; rank < run.programs.world(); ++rank) {
      const double after = replay_step(run.programs, times, {.slow = {{rank, 1.3}}}).makespan;
      EXPECT_GE(after, before * (1 - 1e-12)) << mesh << " rank " << rank;
      EXPECT_LE(after, before * 1.3 * (1 + 1e-12)) << mesh << " rank " << rank;
    }
  }
}

TEST(StepReplayTest, TransfersThatCrossTheSameLinkShareIt) {
  // Messages of the pipeline and sums of gradients meet on slow links.
  const Compiled run = run_of("pp=2,dp=2,zero=2");
  RooflineMachine machine = two_nodes();
  machine.levels = {{.devices = 0, .bandwidth = 2e7, .latency_s = 1e-6}};
  const double own = replay_step(run.programs, RooflineTimes(machine)).makespan;
  const double alone = CriticalPath(run.programs, RooflineTimes(machine)).length();
  EXPECT_GT(own, alone * 1.001);
  // One bus for all.
  machine.levels[0].shared = true;
  EXPECT_GT(replay_step(run.programs, RooflineTimes(machine)).makespan, own * 1.2);
}

TEST(StepReplayTest, KernelsAreSlowerWhileBytesAreOnTheWire) {
  const Compiled run = run_of("dp=2,zero=2");
  RooflineMachine machine = two_nodes();
  const StepTimeline before = replay_step(run.programs, RooflineTimes(machine));
  machine.kernel_share = 0.4;
  const StepTimeline after = replay_step(run.programs, RooflineTimes(machine));
  EXPECT_GT(busiest_kernels(after), busiest_kernels(before) * 1.001);
  EXPECT_LT(busiest_kernels(after), busiest_kernels(before) / (1 - 0.4));
}

TEST(StepReplayTest, GivesTheScheduleFormulaWhenStagesAreEqualAndMessagesFree) {
  for (const int ranks : {1, 2, 4}) {
    for (const int m : {4, 8}) {
      const Compiled run = run_of(fmt::format("pp={}", ranks), 4, m);
      const UnitTimes times(run.programs);
      EXPECT_EQ(replay_step(run.programs, times).makespan, 3.0 * (m + ranks - 1))
          << ranks << " ranks, " << m << " micro-batches";
    }
  }
}

// 1F1B with one slow stage: its own time for every micro-batch, the way from the first stage and
// back, and of the stages behind it what its further forwards leave: of the last stage nothing.
TEST(StepReplayTest, ASlowStageCostsItsTimeForEveryMicroBatch) {
  for (const int ranks : {2, 4}) {
    for (const int m : {4, 8}) {
      const Compiled run = run_of(fmt::format("pp={}", ranks), 4, m);
      const UnitTimes times(run.programs);
      for (int slow = 0; slow < ranks; ++slow) {
        const double makespan = replay_step(run.programs, times, {.slow = {{slow, 1.5}}}).makespan;
        const double own = 3.0 * 1.5 * m;
        EXPECT_GE(makespan, own + 3.0 * slow) << ranks << " ranks, rank " << slow;
        EXPECT_LE(makespan, own + 3.0 * (ranks - 1)) << ranks << " ranks, rank " << slow;
      }
    }
  }
}

TEST(StepReplayTest, ASlowReplicaCostsWhatItsKernelsDo) {
  const Compiled run = run_of("dp=4");
  const UnitTimes times(run.programs);
  EXPECT_EQ(replay_step(run.programs, times).makespan, 12);
  EXPECT_EQ(replay_step(run.programs, times, {.slow = {{2, 1.25}}}).makespan, 15);
  // Twice is the product.
  EXPECT_EQ(replay_step(run.programs, times, {.slow = {{2, 1.25}, {2, 2}}}).makespan, 30);
}

// What has ended before the loss is as it would have been; whoever is stuck waits for someone that
// was lost or is stuck too.
TEST(StepReplayTest, ALostRankChangesOnlyWhatComesAfterAndIsBehindEveryWait) {
  const RooflineTimes times(two_nodes());
  for (const char* mesh : kMeshes) {
    const Compiled run = run_of(mesh);
    const StepTimeline whole = replay_step(run.programs, times, {.fold = false});
    for (const double part : {0.0, 0.3, 0.9}) {
      const int rank = run.programs.world() - 1;
      const double at = part * whole.makespan;
      const StepTimeline lost =
          replay_step(run.programs, times, {.lost = LostRank{rank, at}, .fold = false});
      std::set<int> waiting = {rank};
      for (const StuckRank& stuck : lost.stuck) waiting.insert(stuck.rank);
      for (const StuckRank& stuck : lost.stuck) {
        EXPECT_FALSE(stuck.absent.empty()) << mesh << " " << stuck.waits_for;
        for (const int absent : stuck.absent) EXPECT_TRUE(waiting.contains(absent)) << mesh;
      }
      for (size_t r = 0; r < whole.ranks.size(); ++r) {
        for (size_t i = 0; i < whole.ranks[r].times.size(); ++i) {
          const double before = whole.ranks[r].times[i].end;
          const double after = lost.ranks[r].times[i].end;
          if (before > at) continue;
          EXPECT_EQ(after, before) << mesh << " rank " << r << " instruction " << i;
        }
      }
    }
  }
}

TEST(StepReplayTest, ALostRankStopsThoseWhoWaitForIt) {
  const Compiled run = run_of("pp=2,dp=2");
  const RooflineTimes times(two_nodes());
  const double whole = replay_step(run.programs, times).makespan;
  const StepTimeline lost = replay_step(run.programs, times, {.lost = LostRank{1, 0.5 * whole}});
  ASSERT_FALSE(lost.stuck.empty());
  // Rank 3 has its other stage; both replicas meet in the sum of the gradients.
  const auto waits = [&](int rank) {
    return std::find_if(lost.stuck.begin(), lost.stuck.end(),
                        [rank](const StuckRank& stuck) { return stuck.rank == rank; });
  };
  ASSERT_NE(waits(3), lost.stuck.end());
  EXPECT_EQ(waits(3)->absent, std::vector{1}) << waits(3)->waits_for;
  ASSERT_NE(waits(0), lost.stuck.end());
  EXPECT_EQ(waits(0)->absent, std::vector{1}) << waits(0)->waits_for;
  EXPECT_EQ(waits(1), lost.stuck.end());
  for (const InstructionTime& time :
       lost.ranks[static_cast<size_t>(lost.classes.of_rank[1])].times) {
    EXPECT_LE(time.end, 0.5 * whole);
  }
}

TEST(StepReplayTest, RefusesRanksThatDoNotExist) {
  const Compiled run = run_of("dp=2");
  const RooflineTimes times(two_nodes());
  EXPECT_THROW((void)replay_step(run.programs, times, {.slow = {{2, 1.3}}}), ConfigError);
  EXPECT_THROW((void)replay_step(run.programs, times, {.slow = {{0, 0}}}), ConfigError);
  EXPECT_THROW((void)replay_step(run.programs, times, {.lost = LostRank{-1, 0}}), ConfigError);
}

}  // namespace
}  // namespace tessera

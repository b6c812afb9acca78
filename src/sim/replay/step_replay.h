// An event simulation of one training step: the Programs of all ranks, instruction by instruction,
// on streams that run in order, with events between them. A collective begins when its whole group
// is there, a message when sender and receiver are; transfers that cross the same link share it
// equally. Pure: the same input gives the same times.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/replay/rank_classes.h"
#include "sim/replay/times.h"

namespace tessera {

struct SlowRank {
  int rank = 0;
  double factor = 1;  // its kernels take so many times as long
};

struct LostRank {
  int rank = 0;
  double at_s = 0;  // from then on it does nothing
};

struct ReplayOptions {
  std::vector<SlowRank> slow = {};
  std::optional<LostRank> lost = {};
  bool fold = true;  // simulate one rank of each class
};

inline constexpr double kNeverEnds = -1;

struct InstructionTime {
  double begin = kNeverEnds;   // its stream has come to it and what it waits for is there
  double active = kNeverEnds;  // everyone is there: the transfer begins; of a kernel, `begin`
  double end = kNeverEnds;
};

// The ranks of one class, all of which do this.
struct RankTimeline {
  std::vector<int> ranks;
  const Program* program = nullptr;
  std::vector<InstructionTime> times;  // by instruction
};

// What a rank that cannot go on waits for.
struct StuckRank {
  int rank = 0;             // the first of its class
  double since = 0;         // that its last instruction ended
  size_t instruction = 0;   // that cannot begin or end
  std::string waits_for;    // for people: "rank 2 in all_reduce over dp ('d(layers.1)')"
  std::vector<int> absent;  // ranks that it waits for
};

struct StepTimeline {
  Mesh mesh;
  RankClasses classes;
  std::vector<RankTimeline> ranks;  // by class
  double makespan = 0;              // the latest end
  std::optional<LostRank> lost;
  std::vector<StuckRank> stuck;  // only where a rank was lost
};

// The Programs must outlive the result.
StepTimeline replay_step(const RankPrograms& programs, const Times& times,
                         const ReplayOptions& options = {});

}  // namespace tessera

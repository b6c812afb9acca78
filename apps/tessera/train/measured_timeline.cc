#include "train/measured_timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace tessera {
namespace {

// What all members of a group have in common in one call of it: the members, and how many calls
// that group has made before. A message has two members, and a direction.
using CallKey = std::pair<std::vector<int>, int>;

class Calls {
 public:
  CallKey next(const Program& program, const Instruction& instruction) {
    std::vector<int> who = program.mesh.peers(program.rank, instruction.group);
    if (instruction.op == OpKind::kSend || instruction.op == OpKind::kReceive) {
      const int peer = who[static_cast<size_t>(instruction.peer)];
      const bool sends = instruction.op == OpKind::kSend;
      who = {-1, sends ? program.rank : peer, sends ? peer : program.rank};
    } else {
      who.push_back(static_cast<int>(instruction.stream));  // each stream has groups of its own
    }
    const int place = made_[who]++;
    return {std::move(who), place};
  }

 private:
  std::map<std::vector<int>, int> made_;
};

// By rank and instruction, for communication: when the last of those it concerns was there.
std::vector<std::vector<double>> all_there(const TracedSteps& traced,
                                           const TracedSteps::Step& step) {
  std::map<CallKey, double> latest;
  const auto visit = [&](const auto& f) {
    for (size_t rank = 0; rank < traced.programs.size(); ++rank) {
      const Program& program = traced.programs[rank];
      Calls calls;
      for (size_t i = 0; i < program.instructions.size(); ++i) {
        if (program.instructions[i].stream == StreamKind::kCompute) continue;
        f(rank, i, calls.next(program, program.instructions[i]));
      }
    }
  };
  visit([&](size_t rank, size_t i, const CallKey& key) {
    double& time = latest.emplace(key, 0).first->second;
    time = std::max(time, step.ranks[rank][i].begin);
  });
  std::vector<std::vector<double>> there(traced.programs.size());
  for (size_t rank = 0; rank < there.size(); ++rank) {
    there[rank].resize(traced.programs[rank].instructions.size());
  }
  visit([&](size_t rank, size_t i, const CallKey& key) { there[rank][i] = latest.at(key); });
  return there;
}

StepTimeline timeline_of(const TracedSteps& traced, const TracedSteps::Step& step, double zero) {
  StepTimeline timeline;
  timeline.mesh = traced.programs.front().mesh;
  timeline.classes = one_class_each(static_cast<int>(traced.programs.size()));
  const std::vector<std::vector<double>> there = all_there(traced, step);
  for (size_t rank = 0; rank < traced.programs.size(); ++rank) {
    const Program& program = traced.programs[rank];
    RankTimeline& own = timeline.ranks.emplace_back();
    own.ranks = {static_cast<int>(rank)};
    own.program = &program;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const auto [begin, end] = step.ranks[rank][i];
      const bool kernel = program.instructions[i].stream == StreamKind::kCompute;
      const double active = kernel ? begin : std::clamp(there[rank][i], begin, end);
      own.times.push_back({begin - zero, active - zero, end - zero});
      timeline.makespan = std::max(timeline.makespan, end - zero);
    }
  }
  return timeline;
}

}  // namespace

std::vector<StepTimeline> measured_timelines(const TracedSteps& traced) {
  double zero = std::numeric_limits<double>::infinity();
  if (!traced.steps.empty()) {
    for (const TracedSteps::Spans& spans : traced.steps.front().ranks) {
      for (const InstructionTimes::Span& span : spans) zero = std::min(zero, span.begin);
    }
  }
  std::vector<StepTimeline> timelines;
  for (const TracedSteps::Step& step : traced.steps) {
    timelines.push_back(timeline_of(traced, step, zero));
  }
  return timelines;
}

}  // namespace tessera

#include "sim/schedule/schedule_simulator.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace tessera {
namespace {

constexpr size_t kCosts = ScheduleTape::kCosts;
constexpr uint32_t kNoLink = 0;

// Unlike std::max this becomes one instruction.
double later(double a, double b) { return a > b ? a : b; }

}  // namespace

PipelineTimes uniform_times(int stages, const StageTimes& stage, const MessageTimes& message) {
  PipelineTimes times;
  times.stages.assign(static_cast<size_t>(stages), stage);
  times.messages.assign(static_cast<size_t>(stages) - 1, message);
  return times;
}

void ScheduleSimulator::prepare(const ScheduleTape& tape, size_t width) {
  clock_.assign(static_cast<size_t>(tape.ranks()) * width, 0);
  slots_.assign(tape.num_slots() * width, 0);
  links_.assign(tape.num_links() * width, 0);
  for (std::vector<double>* by_cost : {&cost_, &latency_, &transfer_}) {
    by_cost->resize(static_cast<size_t>(tape.stages()) * kCosts * width);
  }
}

void ScheduleSimulator::load(const ScheduleTape& tape, const PipelineTimes& times, size_t lane,
                             size_t width) {
  const size_t stages = static_cast<size_t>(tape.stages());
  TESSERA_CHECK(times.stages.size() == stages, "{} stages have times of {}", stages,
                times.stages.size());
  TESSERA_CHECK(times.messages.empty() || times.messages.size() + 1 == stages,
                "{} boundaries have times of {}", stages - 1, times.messages.size());
  for (size_t stage = 0; stage < stages; ++stage) {
    const StageTimes& of = times.stages[stage];
    const std::array<double, kCosts> costs = {of.forward, of.input_grad + of.weight_grad,
                                              of.input_grad, of.weight_grad};
    for (size_t pass = 0; pass < kCosts; ++pass) {
      const size_t cost = stage * kCosts + pass;
      const bool sends = tape.link_of_cost()[cost] != kNoLink && !times.messages.empty();
      const bool forward = pass == static_cast<size_t>(StagePass::kForward);
      const MessageTimes message =
          sends ? times.messages[forward ? stage : stage - 1] : MessageTimes{};
      TESSERA_CHECK(costs[pass] >= 0 && message.latency >= 0 && message.transfer >= 0,
                    "stage {} has a time below zero", stage);
      const size_t at = cost * width + lane;
      cost_[at] = costs[pass];
      latency_[at] = message.latency;
      transfer_[at] = message.transfer;
    }
  }
}

// Whether a message can find its link busy. It cannot where no transfer takes longer than the
// shortest action that sends over the same link: then the one before it has ended.
bool ScheduleSimulator::links_can_block(const ScheduleTape& tape, size_t width) {
  for (size_t lane = 0; lane < width; ++lane) {
    longest_transfer_.assign(tape.num_links(), 0);
    shortest_action_.assign(tape.num_links(), -1);
    for (size_t cost = 0; cost < tape.link_of_cost().size(); ++cost) {
      const uint32_t link = tape.link_of_cost()[cost];
      if (link == kNoLink || tape.actions_of_cost()[cost] == 0) continue;
      const double action = cost_[cost * width + lane];
      double& shortest = shortest_action_[link];
      if (shortest < 0 || action < shortest) shortest = action;
      longest_transfer_[link] = later(longest_transfer_[link], transfer_[cost * width + lane]);
      if (longest_transfer_[link] > shortest) return true;
    }
  }
  return false;
}

template <size_t kWidth, bool kBusyLinks>
void play_steps(std::span<const TapeStep> steps, std::span<const uint32_t> link_of_cost,
                double* clock, double* slots, double* links, const double* cost,
                const double* latency, const double* transfer) {
  for (const TapeStep& step : steps) {
    double* const rank = clock + step.rank * kWidth;
    const double* const source = slots + step.source * kWidth;
    double* const target = slots + step.target * kWidth;
    const size_t at = step.cost * kWidth;
    std::array<double, kWidth> end, arrival;
    for (size_t i = 0; i < kWidth; ++i) end[i] = later(rank[i], source[i]) + cost[at + i];
    if constexpr (kBusyLinks) {
      double* const link = links + link_of_cost[step.cost] * kWidth;
      for (size_t i = 0; i < kWidth; ++i) {
        link[i] = later(link[i], end[i]) + transfer[at + i];
        arrival[i] = link[i] + latency[at + i];
      }
    } else {
      for (size_t i = 0; i < kWidth; ++i) arrival[i] = end[i] + transfer[at + i] + latency[at + i];
    }
    for (size_t i = 0; i < kWidth; ++i) rank[i] = end[i];
    for (size_t i = 0; i < kWidth; ++i) target[i] = arrival[i];
  }
}

template <size_t kWidth>
void ScheduleSimulator::play(const ScheduleTape& tape) {
  const auto steps =
      links_can_block(tape, kWidth) ? play_steps<kWidth, true> : play_steps<kWidth, false>;
  steps(tape.steps(), tape.link_of_cost(), clock_.data(), slots_.data(), links_.data(),
        cost_.data(), latency_.data(), transfer_.data());
}

PipelineOutcome ScheduleSimulator::outcome(const ScheduleTape& tape, size_t lane, size_t width,
                                           std::vector<RankOutcome>* ranks) {
  const size_t num_ranks = static_cast<size_t>(tape.ranks());
  PipelineOutcome result;
  if (ranks != nullptr) ranks->assign(num_ranks, {});
  work_.assign(num_ranks, 0);
  for (size_t cost = 0; cost < tape.actions_of_cost().size(); ++cost) {
    const int rank = tape.rank_of_stage()[cost / kCosts];
    work_[static_cast<size_t>(rank)] += tape.actions_of_cost()[cost] * cost_[cost * width + lane];
  }
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const double begin = slots_[tape.first_source()[rank] * width + lane];
    const double end = clock_[rank * width + lane];
    const double busy = work_[rank];
    result.makespan = later(result.makespan, end);
    result.longest_span = later(result.longest_span, end - begin);
    result.busiest = later(result.busiest, busy);
    result.work += busy;
    if (ranks != nullptr) (*ranks)[rank] = {begin, end, busy};
  }
  const double all = result.makespan * tape.ranks();
  // Sums of many times may round to a little more than the makespan.
  if (all > 0) result.bubble = later(0, 1 - result.work / all);
  if (result.longest_span > 0) {
    result.span_bubble = later(0, 1 - result.busiest / result.longest_span);
  }
  return result;
}

PipelineOutcome ScheduleSimulator::run(const ScheduleTape& tape, const PipelineTimes& times,
                                       std::vector<RankOutcome>* ranks) {
  prepare(tape, 1);
  load(tape, times, 0, 1);
  play<1>(tape);
  return outcome(tape, 0, 1, ranks);
}

void ScheduleSimulator::run_many(const ScheduleTape& tape, std::span<const PipelineTimes> times,
                                 std::span<PipelineOutcome> outcomes) {
  TESSERA_CHECK(times.size() == outcomes.size(), "{} sets of times have room for {} outcomes",
                times.size(), outcomes.size());
  size_t first = 0;
  for (; first + kLanes <= times.size(); first += kLanes) {
    prepare(tape, kLanes);
    for (size_t lane = 0; lane < kLanes; ++lane) load(tape, times[first + lane], lane, kLanes);
    play<kLanes>(tape);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      outcomes[first + lane] = outcome(tape, lane, kLanes, nullptr);
    }
  }
  for (; first < times.size(); ++first) outcomes[first] = run(tape, times[first]);
}

}  // namespace tessera

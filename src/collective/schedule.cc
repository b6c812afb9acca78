#include "collective/schedule.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "collective/algorithms.h"

namespace tessera {
namespace {

using enum Algorithm;

// In the order of the enumeration. What every op has comes first: it is what kAuto falls back to.
constexpr std::array kForBroadcast = {kDirect, kNaive, kRing, kTree, kHierarchical};
constexpr std::array kForReduce = {kDirect, kNaive, kTree, kHierarchical};
constexpr std::array kForGatherAndScatter = {kDirect, kNaive, kTree};
constexpr std::array kForShards = {kDirect, kNaive, kRing, kDoubling, kHierarchical};
constexpr std::array kForAllReduce = {kOneShot, kDirect,   kNaive,       kRing,
                                      kTree,    kDoubling, kHierarchical};
constexpr std::array kForAllToAll = {kDirect, kRing};
constexpr std::array kForBarrier = {kDirect, kNaive, kDoubling};
constexpr std::array kOnlyDirect = {kDirect};

std::string_view name_of(StepBuffer buffer) {
  constexpr std::string_view kNames[] = {"in", "out", "scratch"};
  return kNames[static_cast<int>(buffer)];
}

std::string to_text(StepPlace place, int64_t count) {
  return fmt::format("{}[{}, {})", name_of(place.buffer), place.begin, place.begin + count);
}

std::string to_text(const CollectiveSchedule& schedule, const CollectiveStep& step) {
  switch (step.action) {
    case StepAction::kSend:
      return fmt::format("send {} to {}", to_text(step.from, step.count), step.peer);
    case StepAction::kReceive:
      return fmt::format("receive {} from {}", to_text(step.to, step.count), step.peer);
    case StepAction::kCopy:
      return fmt::format("copy {} to {}", to_text(step.from, step.count),
                         to_text(step.to, step.count));
    case StepAction::kReduce:
      break;
  }
  std::string operands;
  for (int i = 0; i < step.num_operands; ++i) {
    const StepPlace place = schedule.operands[static_cast<size_t>(step.first_operand + i)];
    operands += (i == 0 ? "" : " + ") + to_text(place, step.count);
  }
  return fmt::format("{} {} into {}", step.complete ? "complete" : "add", operands,
                     to_text(step.to, step.count));
}

}  // namespace

std::span<const Algorithm> supported_algorithms(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kBroadcast:
      return kForBroadcast;
    case CollectiveOp::kReduce:
      return kForReduce;
    case CollectiveOp::kScatter:
    case CollectiveOp::kGather:
      return kForGatherAndScatter;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
      return kForShards;
    case CollectiveOp::kAllReduce:
      return kForAllReduce;
    case CollectiveOp::kAllToAll:
      return kForAllToAll;
    case CollectiveOp::kBarrier:
      return kForBarrier;
    case CollectiveOp::kAllToAllV:
    case CollectiveOp::kSend:
    case CollectiveOp::kReceive:
      return kOnlyDirect;
  }
  return {};
}

bool supports(CollectiveOp op, Algorithm algorithm) {
  const std::span<const Algorithm> known = supported_algorithms(op);
  return std::find(known.begin(), known.end(), algorithm) != known.end();
}

std::string what_is_unsupported(CollectiveOp op, Algorithm algorithm) {
  std::string known;
  for (const Algorithm other : supported_algorithms(op)) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", tessera::name_of(other));
  }
  return fmt::format("{} has no algorithm '{}': use {}", tessera::name_of(op),
                     tessera::name_of(algorithm), known);
}

void require_supported(CollectiveOp op, Algorithm algorithm) {
  if (!supports(op, algorithm)) throw ConfigError(what_is_unsupported(op, algorithm));
}

CollectiveSchedule make_schedule(const ScheduleRequest& request) {
  require_supported(request.op, request.algorithm);
  ScheduleBuilder builder(request);
  switch (request.algorithm) {
    case kOneShot:
      schedule_one_shot(builder);
      break;
    case kDirect:
      schedule_direct(builder);
      break;
    case kNaive:
      schedule_naive(builder);
      break;
    case kRing:
      schedule_ring(builder);
      break;
    case kTree:
      schedule_tree(builder);
      break;
    case kDoubling:
      schedule_doubling(builder);
      break;
    case kHierarchical:
      schedule_hierarchical(builder);
      break;
    case kAuto:
      TESSERA_CHECK(false, "auto is not an algorithm");
  }
  return builder.finish();
}

int64_t bytes_sent(const CollectiveSchedule& schedule) {
  int64_t elements = 0;
  for (const CollectiveStep& step : schedule.steps) {
    if (step.action == StepAction::kSend) elements += step.count;
  }
  return elements * schedule.element_bytes;
}

std::string to_text(const CollectiveSchedule& schedule) {
  std::string text;
  for (const CollectiveStep& step : schedule.steps) {
    text += fmt::format("{}: {}\n", step.round, to_text(schedule, step));
  }
  return text;
}

}  // namespace tessera

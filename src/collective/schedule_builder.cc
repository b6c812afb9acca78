#include "collective/schedule_builder.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {

ScheduleBuilder::ScheduleBuilder(const ScheduleRequest& request) : request_(request) {
  schedule_.element_bytes = request.element_bytes;
}

StepPlace ScheduleBuilder::scratch(int64_t count) {
  const StepPlace place{StepBuffer::kScratch, schedule_.scratch_count};
  schedule_.scratch_count += count;
  return place;
}

void ScheduleBuilder::message(StepAction action, int peer, StepPlace place, int64_t count) {
  TESSERA_CHECK(peer != rank() && peer >= 0 && peer < ranks(), "rank {} of {} and peer {}", rank(),
                ranks(), peer);
  CollectiveStep step{.round = round_, .action = action, .peer = peer, .count = count};
  (action == StepAction::kSend ? step.from : step.to) = place;
  schedule_.steps.push_back(step);
}

void ScheduleBuilder::send(int peer, StepPlace from, int64_t count) {
  if (count > 0) message(StepAction::kSend, peer, from, count);
}

void ScheduleBuilder::receive(int peer, StepPlace to, int64_t count) {
  if (count > 0) message(StepAction::kReceive, peer, to, count);
}

void ScheduleBuilder::signal(int peer) { message(StepAction::kSend, peer, place::out(), 0); }

void ScheduleBuilder::await(int peer) { message(StepAction::kReceive, peer, place::out(), 0); }

void ScheduleBuilder::copy(StepPlace from, StepPlace to, int64_t count) {
  if (count == 0 || from == to) return;
  schedule_.steps.push_back(
      {.round = round_, .action = StepAction::kCopy, .from = from, .to = to, .count = count});
}

void ScheduleBuilder::add(std::span<const StepPlace> operands, StepPlace to, int64_t count) {
  reduce(operands, to, count, /*complete=*/false);
}

void ScheduleBuilder::complete(std::span<const StepPlace> operands, StepPlace to, int64_t count) {
  reduce(operands, to, count, /*complete=*/true);
}

void ScheduleBuilder::reduce(std::span<const StepPlace> operands, StepPlace to, int64_t count,
                             bool complete) {
  if (operands.size() == 1) return copy(operands[0], to, count);
  if (count == 0) return;
  schedule_.steps.push_back({.round = round_,
                             .action = StepAction::kReduce,
                             .to = to,
                             .count = count,
                             .first_operand = static_cast<int>(schedule_.operands.size()),
                             .num_operands = static_cast<int>(operands.size()),
                             .complete = complete});
  schedule_.operands.insert(schedule_.operands.end(), operands.begin(), operands.end());
}

BlockLayout::Ranges BlockLayout::blocks(int first, int num) const {
  if (num == 0) return {};
  const int last = first + num - 1;
  if (last < ranks_) return {{block(first).begin, block(last).end}, {}};
  return {{block(first).begin, block(ranks_ - 1).end}, {0, block(last - ranks_).end}};
}

}  // namespace tessera

// Calls that ask for ring, tree and the like: their schedules (collective/schedule.h), executed
// with messages between the ranks of the group. For learning and for comparing; what the
// communicator chooses by itself moves straight between buffers. One such call of a group runs at a
// time.
#include <algorithm>
#include <cstring>

#include "comm/reduce.h"
#include "comm/shared/endpoint.h"
#include "comm/shared/shared_communicator.h"

namespace tessera::shared {
namespace {

// All ranks are on one host, so the first half of them stands for one node and the rest for
// another.
std::vector<int> halves(int size) {
  std::vector<int> nodes(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) nodes[static_cast<size_t>(rank)] = 2 * rank / size;
  return nodes;
}

}  // namespace

void SharedCommunicator::begin_schedule(const Op& op) {
  const CollectiveCall& call = op.call;
  const std::vector<int> nodes = halves(size());
  schedule_ = make_schedule({.op = call.op,
                             .algorithm = call.algorithm,
                             .ranks = size(),
                             .rank = rank(),
                             .root = call.root,
                             .count = call.count,
                             .element_bytes = size_bytes(call.dtype),
                             .in_place = call.in == call.out,
                             .nodes = nodes,
                             .send_counts = call.send_counts,
                             .receive_counts = call.receive_counts});
  const int64_t scratch_bytes = schedule_.scratch_count * schedule_.element_bytes;
  const std::string name = fmt::format("rank {} scratch of group {}", endpoint_.rank(), name_);
  HostArena& scratch = op.on_device ? device_scratch_ : schedule_scratch_;
  if (scratch_bytes > scratch.size_bytes()) {
    scratch = HostArena();
    if (op.on_device) {
      guard_device(call, op.sequence,
                   [&] { scratch = domain_.device()->allocate(name, scratch_bytes); });
    } else {
      scratch = endpoint_.allocate(name, scratch_bytes);
    }
  }
  next_step_ = 0;
  begin_round(op);
}

std::byte* SharedCommunicator::step_address(const Op& op, const StepPlace& place) const {
  std::byte* base = op.on_device ? device_scratch_.data() : schedule_scratch_.data();
  if (place.buffer == StepBuffer::kOut) base = static_cast<std::byte*>(op.call.out);
  if (place.buffer == StepBuffer::kIn) {
    base = static_cast<std::byte*>(const_cast<void*>(op.call.in));
  }
  return base + place.begin * schedule_.element_bytes;
}

// Every step of the round: messages are started, the rest is done.
void SharedCommunicator::begin_round(const Op& op) {
  const size_t first = *next_step_;
  while (*next_step_ < schedule_.steps.size()) {
    const CollectiveStep& step = schedule_.steps[*next_step_];
    const bool full = schedule_messages_.num_free() == 0;
    if (step.round != schedule_.steps[first].round || full) break;
    run_step(op, step);
    ++*next_step_;
  }
  if (op.on_device) finish_on_device(op);  // before a message tells a peer what is ready
}

void SharedCommunicator::run_step(const Op& op, const CollectiveStep& step) {
  const DType dtype = op.call.dtype;
  switch (step.action) {
    case StepAction::kSend:
      (void)schedule_messages_.issue({.op = CollectiveOp::kSend,
                                      .dtype = dtype,
                                      .root = step.peer,
                                      .count = step.count,
                                      .in = step_address(op, step.from)},
                                     op.call.op, op.on_device);
      return;
    case StepAction::kReceive:
      (void)schedule_messages_.issue({.op = CollectiveOp::kReceive,
                                      .dtype = dtype,
                                      .root = step.peer,
                                      .count = step.count,
                                      .out = step_address(op, step.to)},
                                     op.call.op, op.on_device);
      return;
    case StepAction::kCopy:
      return copy_in_step(op, step);
    case StepAction::kReduce:
      return reduce_in_step(op, step);
  }
}

void SharedCommunicator::copy_in_step(const Op& op, const CollectiveStep& step) {
  std::byte* to = step_address(op, step.to);
  const std::byte* from = step_address(op, step.from);
  if (to == from) return;
  const int64_t bytes = step.count * schedule_.element_bytes;
  if (op.on_device) {
    return guard_device(op.call, op.sequence, [&] { device_->copy(to, from, bytes); });
  }
  std::memmove(to, from, static_cast<size_t>(bytes));
}

void SharedCommunicator::reduce_in_step(const Op& op, const CollectiveStep& step) {
  std::vector<const void*> sources;
  for (int i = 0; i < step.num_operands; ++i) {
    const auto operand = static_cast<size_t>(step.first_operand + i);
    sources.push_back(step_address(op, schedule_.operands[operand]));
  }
  void* target = step_address(op, step.to);
  const std::span<void* const> targets(&target, 1);
  const int mean_over = step.complete ? size() : 0;
  const ReduceOp reduce = op.call.reduce;
  const DType dtype = op.call.dtype;
  if (op.on_device) {
    return guard_device(op.call, op.sequence, [&] {
      device_->reduce(reduce, dtype, sources, targets, step.count, mean_over);
    });
  }
  reduce_in_order(reduce, dtype, sources, targets, step.count, mean_over);
}

bool SharedCommunicator::move_scheduled(Op& op, Blocker* blocker) {
  if (!next_step_) begin_schedule(op);
  while (true) {
    const std::optional<std::string> wrong = schedule_messages_.advance(blocker, members_);
    if (wrong) fail(*wrong);
    if (!schedule_messages_.idle()) return false;
    if (*next_step_ == schedule_.steps.size()) break;
    begin_round(op);
  }
  next_step_.reset();
  return true;
}

}  // namespace tessera::shared

#include "comm/shared/scheduled.h"

#include <algorithm>
#include <cstring>

#include "comm/reduce.h"
#include "comm/shared/endpoint.h"

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

Scheduled::Scheduled(const GroupSite& site, const OnDevice& on_device)
    : site_(site),
      on_device_(on_device),
      messages_(site.domain, site.group, on_device.mover(), /*channel=*/1) {}

void Scheduled::begin(const PendingCall& pending) {
  const CollectiveCall& call = pending.call;
  const std::vector<int> nodes = halves(site_.size());
  schedule_ = make_schedule({.op = call.op,
                             .algorithm = call.algorithm,
                             .ranks = site_.size(),
                             .rank = site_.rank(),
                             .root = call.root,
                             .count = call.count,
                             .element_bytes = size_bytes(call.dtype),
                             .in_place = call.in == call.out,
                             .nodes = nodes,
                             .send_counts = call.send_counts,
                             .receive_counts = call.receive_counts});
  const int64_t scratch_bytes = schedule_.scratch_count * schedule_.element_bytes;
  const std::string name =
      fmt::format("rank {} scratch of group {}", site_.endpoint.rank(), site_.name);
  HostArena& scratch = pending.on_device ? device_scratch_ : scratch_;
  if (scratch_bytes > scratch.size_bytes()) {
    scratch = HostArena();
    if (pending.on_device) {
      on_device_.guard(call, pending.sequence,
                       [&] { scratch = site_.domain.device()->allocate(name, scratch_bytes); });
    } else {
      scratch = site_.endpoint.allocate(name, scratch_bytes);
    }
  }
  next_step_ = 0;
  begin_round(pending);
}

std::byte* Scheduled::address(const PendingCall& pending, const StepPlace& place) const {
  std::byte* base = pending.on_device ? device_scratch_.data() : scratch_.data();
  if (place.buffer == StepBuffer::kOut) base = static_cast<std::byte*>(pending.call.out);
  if (place.buffer == StepBuffer::kIn) {
    base = static_cast<std::byte*>(const_cast<void*>(pending.call.in));
  }
  return base + place.begin * schedule_.element_bytes;
}

// Every step of the round: messages are started, the rest is done.
void Scheduled::begin_round(const PendingCall& pending) {
  const size_t first = *next_step_;
  while (*next_step_ < schedule_.steps.size()) {
    const CollectiveStep& step = schedule_.steps[*next_step_];
    const bool full = messages_.num_free() == 0;
    if (step.round != schedule_.steps[first].round || full) break;
    run_step(pending, step);
    ++*next_step_;
  }
  if (pending.on_device) on_device_.finish(pending);  // before a message tells a peer what is ready
}

void Scheduled::run_step(const PendingCall& pending, const CollectiveStep& step) {
  const DType dtype = pending.call.dtype;
  switch (step.action) {
    case StepAction::kSend:
      (void)messages_.issue({.op = CollectiveOp::kSend,
                             .dtype = dtype,
                             .root = step.peer,
                             .count = step.count,
                             .in = address(pending, step.from)},
                            pending.call.op, pending.on_device);
      return;
    case StepAction::kReceive:
      (void)messages_.issue({.op = CollectiveOp::kReceive,
                             .dtype = dtype,
                             .root = step.peer,
                             .count = step.count,
                             .out = address(pending, step.to)},
                            pending.call.op, pending.on_device);
      return;
    case StepAction::kCopy:
      return copy_in_step(pending, step);
    case StepAction::kReduce:
      return reduce_in_step(pending, step);
  }
}

void Scheduled::copy_in_step(const PendingCall& pending, const CollectiveStep& step) {
  std::byte* to = address(pending, step.to);
  const std::byte* from = address(pending, step.from);
  if (to == from) return;
  const int64_t bytes = step.count * schedule_.element_bytes;
  if (pending.on_device) {
    return on_device_.guard(pending.call, pending.sequence,
                            [&] { on_device_.mover()->copy(to, from, bytes); });
  }
  std::memmove(to, from, static_cast<size_t>(bytes));
}

void Scheduled::reduce_in_step(const PendingCall& pending, const CollectiveStep& step) {
  std::vector<const void*> sources;
  for (int i = 0; i < step.num_operands; ++i) {
    const auto operand = static_cast<size_t>(step.first_operand + i);
    sources.push_back(address(pending, schedule_.operands[operand]));
  }
  void* target = address(pending, step.to);
  const std::span<void* const> targets(&target, 1);
  const int mean_over = step.complete ? site_.size() : 0;
  const ReduceOp reduce = pending.call.reduce;
  const DType dtype = pending.call.dtype;
  if (pending.on_device) {
    return on_device_.guard(pending.call, pending.sequence, [&] {
      on_device_.mover()->reduce(reduce, dtype, sources, targets, step.count, mean_over);
    });
  }
  reduce_in_order(reduce, dtype, sources, targets, step.count, mean_over);
}

bool Scheduled::move(const PendingCall& pending, Blocker* blocker) {
  if (!next_step_) begin(pending);
  while (true) {
    const std::optional<std::string> wrong = messages_.advance(blocker, site_.members);
    if (wrong) site_.failure.fail(*wrong);
    if (!messages_.idle()) return false;
    if (*next_step_ == schedule_.steps.size()) break;
    begin_round(pending);
  }
  next_step_.reset();
  return true;
}

}  // namespace tessera::shared

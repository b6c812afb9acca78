#include "comm/message/running_call.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "comm/reduce.h"

namespace tessera::message {
namespace {

// The time of day, so that processes of one host (and hosts that keep their clocks) agree on it.
int64_t now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

RunningCall::RunningCall(MessageGroup& group)
    : group_(group),
      unheard_(static_cast<size_t>(group.size())),
      streams_to_(static_cast<size_t>(group.size())),
      streams_from_(static_cast<size_t>(group.size())),
      arrived_at_us_(static_cast<size_t>(group.size())) {}

void RunningCall::begin(const CollectiveCall& call, const CallHeader& header,
                        std::shared_ptr<const CallRecipe> plan) {
  call_ = call;
  header_ = header;
  plan_ = std::move(plan);
  element_bytes_ = size_bytes(call.dtype);
  std::fill(unheard_.begin(), unheard_.end(), false);
  for (const int rank : plan_->headers_from) unheard_[static_cast<size_t>(rank)] = true;
  num_unheard_ = static_cast<int>(plan_->headers_from.size());
  std::fill(arrived_at_us_.begin(), arrived_at_us_.end(), ArrivalLog::kUnknown);
  arrived_at_us_[static_cast<size_t>(group_.rank)] = header_.sent_at_us = now_us();
  first_round_ = true;
  next_step_ = 0;
  pending_.clear();
  done_ = false;
  const auto scratch_bytes = static_cast<size_t>(plan_->schedule.scratch_count * element_bytes_);
  if (scratch_.size() * sizeof(CacheLine) < scratch_bytes) {
    scratch_.clear();  // nothing to copy over
    scratch_.resize((scratch_bytes + sizeof(CacheLine) - 1) / sizeof(CacheLine));
  }
  send_headers();
  const std::vector<CollectiveStep>& steps = plan_->schedule.steps;
  for (const CollectiveStep& step : steps) {
    if (step.round != steps.front().round) break;
    if (step.action == StepAction::kSend) post(step);
  }
}

void RunningCall::send_headers() {
  for (const int rank : plan_->headers_to) {
    const int world_rank = group_.world_rank(rank);
    CallHeader header = header_;
    header.stream = streams_to_[static_cast<size_t>(rank)] = group_.engine.next_stream(world_rank);
    if (call_.op == CollectiveOp::kAllToAllV) {
      header.count = call_.send_counts[static_cast<size_t>(rank)];
    }
    group_.engine.send_header(world_rank, header);
  }
}

int64_t RunningCall::expected_count(int rank) const {
  const bool uneven = call_.op == CollectiveOp::kAllToAllV;
  return uneven ? call_.receive_counts[static_cast<size_t>(rank)] : header_.count;
}

void RunningCall::take_header(int rank, const CallHeader& theirs) {
  const int mine = group_.world_rank(group_.rank);
  const int other = group_.world_rank(rank);
  // A call that agrees is expected: the schedules match.
  if (!agree(header_, theirs) || !unheard_[static_cast<size_t>(rank)]) {
    group_.fail(disagreement(mine, header_, other, theirs));
  }
  if (theirs.count != expected_count(rank)) {
    group_.fail(fmt::format("rank {} sends {} elements to rank {}, which expects {}, in {}", other,
                            theirs.count, mine, expected_count(rank), describe(header_)));
  }
  unheard_[static_cast<size_t>(rank)] = false;
  streams_from_[static_cast<size_t>(rank)] = theirs.stream;
  arrived_at_us_[static_cast<size_t>(rank)] = theirs.sent_at_us;
  if (--num_unheard_ == 0 && !is_point_to_point(call_.op)) {
    group_.arrivals.record(arrived_at_us_);
  }
}

void RunningCall::advance() {
  if (done_ || num_unheard_ > 0) return;
  while (first_round_ || messages_done()) {
    if (next_step_ == plan_->schedule.steps.size()) {
      done_ = messages_done();
      return;
    }
    start_round();
  }
}

void RunningCall::start_round() {
  const std::vector<CollectiveStep>& steps = plan_->schedule.steps;
  const size_t begin = next_step_;
  size_t end = begin;
  while (end < steps.size() && steps[end].round == steps[begin].round) ++end;
  // Receives first: whoever waits to send may go ahead.
  for (size_t i = begin; i < end; ++i) {
    if (steps[i].action == StepAction::kReceive) post(steps[i]);
  }
  for (size_t i = begin; i < end && !first_round_; ++i) {
    if (steps[i].action == StepAction::kSend) post(steps[i]);
  }
  for (size_t i = begin; i < end; ++i) {
    const StepAction action = steps[i].action;
    if (action == StepAction::kCopy || action == StepAction::kReduce) compute(steps[i]);
  }
  first_round_ = false;
  next_step_ = end;
}

void RunningCall::post(const CollectiveStep& step) {
  Transport& transport = group_.engine.transport();
  const int peer = group_.world_rank(step.peer);
  const auto rank = static_cast<size_t>(step.peer);
  const int64_t bytes = step.count * element_bytes_;
  if (step.action == StepAction::kSend) {
    pending_.push_back(
        {transport.post_send(peer, streams_to_[rank], address(step.from), bytes), step.peer});
    group_.counters[static_cast<size_t>(call_.op)].bytes_sent += bytes;
  } else {
    pending_.push_back(
        {transport.post_receive(peer, streams_from_[rank], address(step.to), bytes), step.peer});
  }
}

void RunningCall::compute(const CollectiveStep& step) {
  void* const to = address(step.to);
  if (step.action == StepAction::kCopy) {
    const void* const from = address(step.from);
    if (from != to) std::memcpy(to, from, static_cast<size_t>(step.count * element_bytes_));
    return;
  }
  sources_.clear();
  for (int i = 0; i < step.num_operands; ++i) {
    const auto operand = static_cast<size_t>(step.first_operand + i);
    sources_.push_back(address(plan_->schedule.operands[operand]));
  }
  reduce_in_order(call_.reduce, call_.dtype, sources_, std::span(&to, 1), step.count,
                  step.complete ? group_.size() : 0);
}

bool RunningCall::messages_done() {
  Transport& transport = group_.engine.transport();
  for (size_t i = 0; i < pending_.size();) {
    if (transport.test(pending_[i].request)) {
      pending_[i] = pending_.back();
      pending_.pop_back();
      group_.engine.note_activity();
    } else {
      ++i;
    }
  }
  return pending_.empty();
}

void RunningCall::cancel() noexcept {
  for (const Pending& p : pending_) group_.engine.transport().cancel(p.request);
  pending_.clear();
  done_ = true;
}

std::byte* RunningCall::address(StepPlace place) {
  const int64_t offset = place.begin * element_bytes_;
  switch (place.buffer) {
    case StepBuffer::kIn:  // only read
      return static_cast<std::byte*>(const_cast<void*>(call_.in)) + offset;
    case StepBuffer::kOut:
      return static_cast<std::byte*>(call_.out) + offset;
    case StepBuffer::kScratch:
      break;
  }
  return reinterpret_cast<std::byte*>(scratch_.data()) + offset;
}

std::vector<int> RunningCall::awaited() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (unheard_[static_cast<size_t>(rank)]) ranks.push_back(rank);
  }
  if (!ranks.empty()) return ranks;
  for (const Pending& p : pending_) ranks.push_back(p.peer);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace tessera::message

#include "comm/nccl/handshake.h"

#include <fmt/format.h>

#include <type_traits>

namespace tessera::nccl {
namespace {

static_assert(std::has_unique_object_representations_v<CallRecord>);  // no byte is left to chance

std::string describe(const CallRecord& record) {
  return tessera::describe({.op = record.op,
                            .reduce = record.reduce,
                            .dtype = record.dtype,
                            .root = record.root,
                            .tag = record.tag,
                            .count = record.count},
                           record.sequence);
}

}  // namespace

void Handshake::begin(const HostGroups& groups, const CollectiveCall& call, uint64_t sequence) {
  groups_ = &groups;
  call_ = &call;
  mine_ = {.sequence = sequence,
           .count = call.op == CollectiveOp::kAllToAllV ? 0 : call.count,
           .root = has_root(call.op) || is_point_to_point(call.op) ? call.root : 0,
           .tag = call.tag,
           .op = call.op,
           .reduce = reduces(call.op) ? call.reduce : ReduceOp::kSum,
           .dtype = call.dtype};
  if (is_point_to_point(call.op)) {
    begin_message();
  } else {
    begin_collective();
  }
}

void Handshake::skip() { groups_ = nullptr; }

void Handshake::begin_collective() {
  Communicator& group = groups_->calls;
  theirs_.resize(static_cast<size_t>(group.size()));
  records_ = group.start({.op = CollectiveOp::kAllGather,
                          .dtype = DType::kU8,
                          .count = sizeof(CallRecord),
                          .in = &mine_,
                          .out = theirs_.data()});
  if (call_->op != CollectiveOp::kAllToAllV) return;
  // On the other group, where a rank that calls something else is missed without harm: the records
  // tell.
  counts_for_me_.resize(theirs_.size());
  extra_ = groups_->replies.start({.op = CollectiveOp::kAllToAll,
                                   .dtype = DType::kI64,
                                   .count = 1,
                                   .in = call_->send_counts.data(),
                                   .out = counts_for_me_.data()});
}

// The sender announces itself on `calls` and is answered on `replies`.
void Handshake::begin_message() {
  const bool sends = call_->op == CollectiveOp::kSend;
  theirs_.resize(1);
  Communicator& mine = sends ? groups_->calls : groups_->replies;
  Communicator& theirs = sends ? groups_->replies : groups_->calls;
  extra_ = mine.start({.op = CollectiveOp::kSend,
                       .dtype = DType::kU8,
                       .root = call_->root,
                       .count = sizeof(CallRecord),
                       .in = &mine_});
  records_ = theirs.start({.op = CollectiveOp::kReceive,
                           .dtype = DType::kU8,
                           .root = call_->root,
                           .count = sizeof(CallRecord),
                           .out = theirs_.data()});
}

bool Handshake::done() {
  if (groups_ == nullptr) return true;
  if (!records_.test()) return false;
  return extra_.test() || !records_mismatch().empty();
}

void Handshake::look_for_trouble() {
  if (groups_ != nullptr) (void)records_.wait_for(std::chrono::milliseconds(0));
}

void Handshake::wait() {
  if (groups_ == nullptr) return;
  records_.wait();
  if (records_mismatch().empty()) extra_.wait();
}

std::string Handshake::mismatch() const {
  if (groups_ == nullptr) return "";
  const std::string records = records_mismatch();
  if (!records.empty() || call_->op != CollectiveOp::kAllToAllV) return records;
  return counts_mismatch();
}

std::string Handshake::records_mismatch() const {
  if (is_point_to_point(call_->op)) return message_mismatch();
  for (size_t rank = 1; rank < theirs_.size(); ++rank) {
    if (theirs_[rank] == theirs_[0]) continue;
    return disagreement(static_cast<int>(rank), theirs_[rank], 0, theirs_[0]);
  }
  return "";
}

std::string Handshake::message_mismatch() const {
  CallRecord expected = mine_;  // as the peer should have it: the other op, with this rank's number
  expected.op = mine_.op == CollectiveOp::kSend ? CollectiveOp::kReceive : CollectiveOp::kSend;
  expected.root = groups_->calls.rank();
  if (theirs_[0] == expected) return "";
  return disagreement(call_->root, theirs_[0], groups_->calls.rank(), mine_);
}

std::string Handshake::counts_mismatch() const {
  const std::span<const int> members = groups_->calls.members();
  for (size_t rank = 0; rank < counts_for_me_.size(); ++rank) {
    if (counts_for_me_[rank] == call_->receive_counts[rank]) continue;
    const int me = members[static_cast<size_t>(groups_->calls.rank())];
    return fmt::format("rank {} sends {} elements to rank {}, which expects {}, in {}",
                       members[rank], counts_for_me_[rank], me, call_->receive_counts[rank],
                       describe(mine_));
  }
  return "";
}

std::string Handshake::disagreement(int rank, const CallRecord& record, int other_rank,
                                    const CallRecord& other) const {
  const std::span<const int> members = groups_->calls.members();
  return fmt::format("rank {} called {} while rank {} called {}",
                     members[static_cast<size_t>(rank)], describe(record),
                     members[static_cast<size_t>(other_rank)], describe(other));
}

}  // namespace tessera::nccl

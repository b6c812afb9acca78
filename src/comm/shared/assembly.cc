#include "comm/shared/assembly.h"

#include <algorithm>
#include <numeric>

namespace tessera::shared {

Assembly::Assembly(const GroupSite& site)
    : site_(site),
      in_(site.members.size()),
      out_(site.members.size()),
      sources_(site.members.size()),
      targets_(site.members.size()),
      offsets_(site.members.size()),
      lengths_(site.members.size()) {}

int64_t Assembly::longest_block(const PendingCall& pending) const {
  if (pending.call.op != CollectiveOp::kAllToAllV) return pending.call.count;
  int64_t longest = 0;
  for (int peer = 0; peer < site_.size(); ++peer) {
    const int64_t* sent = site_.view().counts(peer, pending.sequence);
    longest = std::max(longest, *std::max_element(sent, sent + site_.size()));
  }
  return longest;
}

void Assembly::find_sides(const PendingCall& pending, int peer, int64_t begin,
                          int64_t stage_stride) {
  const GroupView& view = site_.view();
  const Domain& domain = site_.domain;
  const CollectiveCall& call = pending.call;
  const CallLine& line = view.call(peer, pending.sequence);
  Side& in = in_[static_cast<size_t>(peer)];
  Side& out = out_[static_cast<size_t>(peer)];
  in = {.base = domain.address(line.in), .stride = call.count};
  out = {.base = domain.address(line.out), .stride = call.count};
  if (pending.mailed) {
    in.base = view.mail(peer, line.mail_slot);
    if (peer == site_.rank()) out.base = static_cast<std::byte*>(call.out);
  }
  if (call.op == CollectiveOp::kAllToAllV) {
    const int64_t* sent = view.counts(peer, pending.sequence);
    in.base += std::accumulate(sent, sent + site_.rank(), int64_t{0}) * size_bytes(call.dtype);
    in.stride = 0;
    lengths_[static_cast<size_t>(peer)] = sent[site_.rank()];
  }
  if ((line.flags & (kForeignIn | kForeignOut)) == 0) return;
  std::byte* stage = domain.address(view.member(peer).stage);
  if (line.flags & kForeignIn) in = {stage, stage_stride, begin};
  if (line.flags & kForeignOut) out = {stage + kStageBytes, stage_stride, begin};
}

Movement Assembly::whole(const PendingCall& pending) {
  return range(pending, 0, longest_block(pending), 0);
}

Movement Assembly::range(const PendingCall& pending, int64_t begin, int64_t end,
                         int64_t stage_stride) {
  const CollectiveCall& call = pending.call;
  const int rank = site_.rank();
  for (int peer = 0; peer < site_.size(); ++peer) {
    if (peer != rank && !awaits(pending, rank, peer)) continue;
    find_sides(pending, peer, begin, stage_stride);
  }
  const bool uneven = call.op == CollectiveOp::kAllToAllV;
  if (uneven && !(site_.view().call(rank, pending.sequence).flags & kForeignOut)) {
    std::exclusive_scan(call.receive_counts.begin(), call.receive_counts.end(), offsets_.begin(),
                        int64_t{0});
    out_[static_cast<size_t>(rank)].offsets = offsets_.data();
  }
  Movement movement{.op = call.op,
                    .reduce = call.reduce,
                    .dtype = call.dtype,
                    .root = call.root,
                    .rank = rank,
                    .one_shot = pending.mailed,
                    .any_in_place = pending.any_in_place,
                    .begin = begin,
                    .end = end,
                    .in = in_,
                    .out = out_,
                    .sources = sources_,
                    .targets = targets_};
  if (uneven) movement.lengths = lengths_;
  return movement;
}

}  // namespace tessera::shared

#include "comm/shared/ways.h"

#include "comm/shared/call_shape.h"

namespace tessera::shared {

bool Direct::move(const PendingCall& pending, Blocker* /*blocker*/) {
  if (pending.call.op == CollectiveOp::kBarrier) return true;
  shared::move(assembly_.whole(pending), site_.view());
  return true;
}

Ways::Ways(const GroupSite& site)
    : site_(site),
      assembly_(site),
      direct_(site, assembly_),
      helping_(site, assembly_),
      on_device_(site, assembly_),
      staging_(site, assembly_),
      scheduled_(site, on_device_) {}

uint8_t Ways::buffer_flags(const PendingCall& pending) {
  const CollectiveCall& call = pending.call;
  const Domain& domain = site_.domain;
  const int64_t in_bytes = input_bytes(call, site_.rank(), site_.size());
  const int64_t out_bytes = output_bytes(call, site_.rank(), site_.size());
  const bool in_reached = !peers_read_input(call.op) || domain.reachable(call.in, in_bytes);
  const bool out_reached = !peers_store_output(call.op) || domain.reachable(call.out, out_bytes);
  unsigned flags = 0;
  if (!in_reached) flags |= kForeignIn;
  if (!out_reached) flags |= kForeignOut;
  if (call.in == call.out && in_bytes > 0) flags |= kInPlace;
  if (!pending.on_device && helping_.may_be_helped(call)) flags |= kHelped;
  if ((flags & (kForeignIn | kForeignOut)) != 0 && !pending.scheduled) staging_.make_stage();
  return static_cast<uint8_t>(flags);
}

void Ways::choose(PendingCall& pending) const {
  pending.staged = (pending.any_flags & (kForeignIn | kForeignOut)) != 0;
  pending.any_in_place = (pending.any_flags & kInPlace) != 0;
  pending.helped = !pending.staged && (pending.all_flags & kHelped) != 0;
}

Way& Ways::of(const PendingCall& pending) {
  if (pending.scheduled) return scheduled_;
  if (pending.staged) return staging_;
  if (pending.on_device) return on_device_;
  if (pending.helped) return helping_;
  return direct_;
}

}  // namespace tessera::shared

#include "comm/shared/on_device.h"

#include "comm/shared/call_shape.h"

namespace tessera::shared {

OnDevice::OnDevice(const GroupSite& site, Assembly& assembly)
    : site_(site),
      assembly_(assembly),
      mover_(site.domain.device() != nullptr ? site.domain.device()->make_mover() : nullptr) {}

bool OnDevice::lies_there(const CollectiveCall& call, uint64_t sequence) const {
  if (mover_ == nullptr) return false;
  const int rank = site_.rank();
  const int size = site_.size();
  const bool broadcasts = call.op == CollectiveOp::kBroadcast;  // from and to `out`
  const bool has_in = !broadcasts && input_bytes(call, rank, size) > 0;
  const bool has_out = broadcasts ? call.count > 0 : output_bytes(call, rank, size) > 0;
  Device& device = *site_.domain.device();
  bool in = false;
  bool out = false;
  guard(call, sequence, [&] {
    in = has_in && device.reaches(call.in);
    out = has_out && device.reaches(call.out);
  });
  if (has_in && has_out && in != out) {
    site_.failure.fail(fmt::format("rank {} called {}: the input is memory of {}, the output of {}",
                                   site_.world_rank(rank), describe(call, sequence),
                                   in ? device.name() : "the host",
                                   out ? device.name() : "the host"));
  }
  return in || out;
}

uint8_t OnDevice::memory_flag(const PendingCall& pending) const {
  if (mover_ == nullptr) return 0;
  if (pending.on_device) return kOnDevice;
  const int rank = site_.rank();
  const int size = site_.size();
  const int64_t bytes =
      input_bytes(pending.call, rank, size) + output_bytes(pending.call, rank, size);
  return bytes > 0 ? kOnHost : 0;
}

void OnDevice::check_same_memory(const PendingCall& pending) const {
  if ((pending.any_flags & kOnDevice) == 0 || (pending.any_flags & kOnHost) == 0) return;
  const auto first_with = [&](uint8_t flag) {
    int peer = 0;
    while ((peer != site_.rank() && !awaits(pending, site_.rank(), peer)) ||
           (site_.view().call(peer, pending.sequence).flags & flag) == 0) {
      ++peer;
    }
    return site_.world_rank(peer);
  };
  site_.failure.fail(
      fmt::format("rank {} called {} with memory of {}, rank {} with memory of the host",
                  first_with(kOnDevice), describe(pending.call, pending.sequence),
                  site_.domain.device()->name(), first_with(kOnHost)));
}

bool OnDevice::move(const PendingCall& pending, Blocker* /*blocker*/) {
  Movement movement = assembly_.whole(pending);
  movement.device = mover_.get();
  movement.counts_as_mail = fits_mail(pending.call, site_.size());
  guard(pending.call, pending.sequence, [&] { shared::move(movement, site_.view()); });
  finish(pending);
  return true;
}

void OnDevice::finish(const PendingCall& pending) const {
  guard(pending.call, pending.sequence,
        [&] { mover_->finish(site_.domain.block().abort_flag, site_.domain.patience().timeout); });
}

void OnDevice::fail(const CollectiveCall& call, uint64_t sequence, const Error& error) const {
  site_.failure.fail(fmt::format("rank {} in {}: {}", site_.world_rank(site_.rank()),
                                 describe(call, sequence), error.what()));
}

}  // namespace tessera::shared

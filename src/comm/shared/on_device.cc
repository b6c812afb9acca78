// Calls whose buffers are memory of a device that all ranks share. They are told from calls on host
// memory by the addresses, so both may be mixed in a group; the ranks of one call must agree.
#include "comm/shared/call_shape.h"
#include "comm/shared/shared_communicator.h"

namespace tessera::shared {

bool SharedCommunicator::lies_on_device(const CollectiveCall& call) {
  if (device_ == nullptr) return false;
  const bool broadcasts = call.op == CollectiveOp::kBroadcast;  // from and to `out`
  const bool has_in = !broadcasts && input_bytes(call, rank(), size()) > 0;
  const bool has_out = broadcasts ? call.count > 0 : output_bytes(call, rank(), size()) > 0;
  Device& device = *domain_.device();
  bool in = false;
  bool out = false;
  guard_device(call, issued_ + 1, [&] {
    in = has_in && device.reaches(call.in);
    out = has_out && device.reaches(call.out);
  });
  if (has_in && has_out && in != out) {
    fail(fmt::format("rank {} called {}: the input is memory of {}, the output of {}",
                     world_rank(rank()), describe(call, issued_ + 1),
                     in ? device.name() : "the host", out ? device.name() : "the host"));
  }
  return in || out;
}

uint8_t SharedCommunicator::memory_flag(const Op& op) const {
  if (device_ == nullptr) return 0;
  if (op.on_device) return kOnDevice;
  const int64_t bytes =
      input_bytes(op.call, rank(), size()) + output_bytes(op.call, rank(), size());
  return bytes > 0 ? kOnHost : 0;
}

void SharedCommunicator::check_same_memory(const Op& op) {
  if ((op.any_flags & kOnDevice) == 0 || (op.any_flags & kOnHost) == 0) return;
  const auto first_with = [&](uint8_t flag) {
    int peer = 0;
    while ((peer != rank() && !awaits(op, peer)) ||
           (group_.view.call(peer, op.sequence).flags & flag) == 0) {
      ++peer;
    }
    return world_rank(peer);
  };
  fail(fmt::format("rank {} called {} with memory of {}, rank {} with memory of the host",
                   first_with(kOnDevice), describe(op.call, op.sequence), domain_.device()->name(),
                   first_with(kOnHost)));
}

void SharedCommunicator::fail_on_device(const CollectiveCall& call, uint64_t sequence,
                                        const Error& error) {
  fail(
      fmt::format("rank {} in {}: {}", world_rank(rank()), describe(call, sequence), error.what()));
}

void SharedCommunicator::finish_on_device(const Op& op) {
  guard_device(op.call, op.sequence,
               [&] { device_->finish(domain_.block().abort_flag, domain_.patience().timeout); });
}

}  // namespace tessera::shared

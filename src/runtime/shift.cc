#include "runtime/shift.h"

namespace tessera {

std::array<CollectiveCall, 2> shift_calls(const Communicator& group, const Tensor& in,
                                          const Tensor& out, uint32_t tag) {
  CollectiveCall send;
  send.op = CollectiveOp::kSend;
  send.dtype = in.dtype;
  send.root = (group.rank() + 1) % group.size();
  send.tag = tag;
  send.count = in.numel();
  send.in = in.data;
  CollectiveCall receive = send;
  receive.op = CollectiveOp::kReceive;
  receive.root = (group.rank() + group.size() - 1) % group.size();
  receive.in = nullptr;
  receive.out = out.data;
  return {send, receive};
}

void shift(Communicator& group, const Tensor& in, const Tensor& out, uint32_t tag) {
  const std::array<CollectiveCall, 2> calls = shift_calls(group, in, out, tag);
  Work sent = group.start(calls[0]);
  Work received = group.start(calls[1]);
  received.wait();
  sent.wait();
}

}  // namespace tessera

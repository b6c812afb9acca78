#include "runtime/shift.h"

namespace tessera {

void shift(Communicator& group, const Tensor& in, const Tensor& out, uint32_t tag) {
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
  // Both are under way before either is waited for: a ring of ranks that first send would stop.
  Work sent = group.start(send);
  Work received = group.start(receive);
  received.wait();
  sent.wait();
}

}  // namespace tessera

#include "runtime/calls.h"

namespace tessera {
namespace {

// In elements of what, where: as CollectiveCall says for each op.
CollectiveCall message(const Instruction& instruction, const Tensor& in, const Tensor& out) {
  CollectiveCall call;
  const bool sends = instruction.op == OpKind::kSend;
  call.op = sends ? CollectiveOp::kSend : CollectiveOp::kReceive;
  call.root = instruction.peer;
  call.dtype = sends ? in.dtype : out.dtype;
  call.count = sends ? in.numel() : out.numel();
  if (sends) {
    call.in = in.data;
  } else {
    call.out = out.data;
  }
  return call;
}

}  // namespace

CollectiveCall call_of(const Instruction& instruction, int peers, const Tensor& in,
                       const Tensor& out, uint32_t tag) {
  CollectiveCall call;
  call.dtype = in.dtype;
  call.in = in.data;
  call.out = out.data;
  switch (instruction.stream == StreamKind::kPipe ? CastKind::kNothing : instruction.collective) {
    case CastKind::kNothing:
      call = message(instruction, in, out);
      break;
    case CastKind::kAllReduce:  // in place
      call.op = CollectiveOp::kAllReduce;
      call.dtype = out.dtype;
      call.in = out.data;
      call.count = out.numel();
      break;
    case CastKind::kAllGather:
      call.op = CollectiveOp::kAllGather;
      call.count = in.numel();
      break;
    case CastKind::kAllToAll:
      call.op = CollectiveOp::kAllToAll;
      call.count = in.numel() / peers;
      break;
    case CastKind::kReduceScatter:
      call.op = CollectiveOp::kReduceScatter;
      call.count = out.numel();
      break;
    default:
      TESSERA_CHECK(false, "{} is not executed", collective_name(instruction.collective));
  }
  if (instruction.tree) call.reduce = instruction.twins ? ReduceOp::kTwinSum : ReduceOp::kTreeSum;
  if (instruction.maximum) call.reduce = ReduceOp::kMax;
  call.tag = tag;
  return call;
}

}  // namespace tessera

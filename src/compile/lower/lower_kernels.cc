// Kernels as instructions: the numbers and the scratch memory that each needs on this rank.
#include <algorithm>

#include "base/error.h"
#include "base/sequence_rows.h"
#include "compile/lower/kernel_args.h"
#include "compile/lower/lowering.h"

namespace tessera {
namespace {

// Kernels that take the value they add to as an input.
bool adds_in_kernel(OpKind op) { return op == OpKind::kRmsNormDx || op == OpKind::kLayerNormDx; }

}  // namespace

KernelArgs Lowering::args_of(const Node& node) const {
  KernelArgs args;
  args.head_dim = node.attrs.head_dim;
  args.seq_len = node.attrs.seq_len;
  args.eps = node.attrs.eps;
  args.inverse = node.attrs.inverse;
  args.experts = expert_args(step_, node, program_.rank);
  const int64_t tp = step_.mesh.size(Axis::kTp);
  const auto split_on_tp = [&](size_t input) {
    return graph_.type(node.inputs[input]).on(Axis::kTp).kind == Placement::Kind::kSplit;
  };
  args.window = node.attrs.window;
  switch (node.op) {
    case OpKind::kDropout:
    case OpKind::kAddPositions:
    case OpKind::kPositionsDw:
      args.parts = step_.mesh.size(Axis::kCp);
      args.q_part = coord(Axis::kCp);
      // With sequence parallelism a rank's tokens begin inside a sequence, or at a later one.
      if (split_on_tp(0)) {
        args.first_token = coord(Axis::kTp) * map_.slots.at(node.inputs[0]).shape[0];
      }
      break;
    case OpKind::kRope:
      args.heads = node.attrs.heads / (split_on_tp(0) ? tp : 1);
      break;
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionPart:
    case OpKind::kAttentionGradPart: {
      args.heads = node.attrs.heads / (split_on_tp(0) ? tp : 1);
      args.kv_heads = node.attrs.kv_heads / (split_on_tp(1) ? tp : 1);
      args.heads_per_kv = node.attrs.heads / node.attrs.kv_heads;
      if (split_on_tp(0)) args.first_head = coord(Axis::kTp) * args.heads;
      if (split_on_tp(1)) args.first_kv_head = coord(Axis::kTp) * args.kv_heads;
      add_context_args(node, args);
      break;
    }
    case OpKind::kEmbedding:
    case OpKind::kEmbeddingDw:
    case OpKind::kCrossEntropyStats:
    case OpKind::kCrossEntropyGrad: {
      int64_t rows = 0;  // of the vocabulary on this rank
      if (node.op == OpKind::kEmbedding) rows = map_.slots.at(node.inputs[1]).shape[0];
      if (node.op == OpKind::kEmbeddingDw) rows = map_.slots.at(node.outputs[0]).shape[0];
      if (rows == 0) rows = map_.slots.at(node.inputs[0]).shape[1];
      args.first_row = coord(Axis::kTp) * rows;
      args.valid_rows = std::clamp<int64_t>(node.attrs.vocab - args.first_row, 0, rows);
      break;
    }
    default:
      break;
  }
  return args;
}

int64_t Lowering::keys_per_sequence(const Node& node) const {
  const bool split_keys = graph_.type(node.inputs[1]).on(Axis::kCp) == split(0);
  return node.attrs.seq_len / (split_keys ? step_.mesh.size(Axis::kCp) : 1);
}

// Whose tokens and which heads: the ranks of cp share either the rows of q and kv or their columns.
void Lowering::add_context_args(const Node& node, KernelArgs& args) const {
  const int64_t cp = step_.mesh.size(Axis::kCp);
  if (cp == 1) return;
  const Placement q = graph_.type(node.inputs[0]).on(Axis::kCp);
  const Placement kv = graph_.type(node.inputs[1]).on(Axis::kCp);
  const bool whole = node.op == OpKind::kAttention || node.op == OpKind::kAttentionGrad;
  TESSERA_CHECK(!whole || !(kv == split(0)), "'{}': the ring over cp was not expanded", node.name);
  const int64_t me = coord(Axis::kCp);
  args.parts = cp;
  args.q_part = q == split(0) ? me : SequenceRows::kAllParts;
  args.kv_part = kv == split(0) ? (me + cp - node.attrs.hop) % cp : SequenceRows::kAllParts;
  if (q == split(1)) {
    args.heads /= cp;
    args.first_head += me * args.heads;
  }
  if (kv == split(1)) {
    args.kv_heads /= cp;
    args.first_kv_head += me * args.kv_heads;
  }
}

void Lowering::lower_kernel(const Node& node, int64_t micro_batch) {
  reserve_scratch(node);
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  for (const ValueId v : node.inputs) inputs.push_back(operand(v, micro_batch));
  for (const ValueId v : node.outputs) outputs.push_back(operand(v, micro_batch));
  // Gradients of weights and the loss go on from the micro-batch before.
  const bool weight_grad = node.tag.pass == Pass::kWeightGrad && step_.keeps_full_gradients();
  const bool continues =
      node.op == OpKind::kCrossEntropyLoss ? !is_first_of_step() : weight_grad && !is_first();
  if (node.accumulate) {
    const BufferId before = inputs.back();
    inputs.pop_back();
    if (adds_in_kernel(node.op)) {
      inputs.push_back(before);  // the kernel adds it in the same pass
    } else if (before != outputs[0]) {
      emit(OpKind::kCopy, node, micro_batch, {before}, {outputs[0]});
    }
  }
  if (node.op == OpKind::kRope) {
    inputs.push_back(buffer(map_.rope_cos, "rope.cos"));
    inputs.push_back(buffer(map_.rope_sin, "rope.sin"));
  }
  if (node.op == OpKind::kCrossEntropyLoss) inputs.pop_back();  // logits: for its gradient only
  if (node.op == OpKind::kRouterStats) {
    Slot row = map_.router_load;
    row.shape = {node.attrs.experts.experts};
    row.offset += node.attrs.experts.layer * row.bytes();
    outputs.push_back(buffer(row, "router.load"));
  }
  Instruction& instruction =
      emit(node.op, node, micro_batch, std::move(inputs), std::move(outputs));
  instruction.args = args_of(node);
  set_dropout(step_, node, program_.rank, micro_batch, instruction.args);
  instruction.accumulate = (node.accumulate && !adds_in_kernel(node.op)) || continues;
}

}  // namespace tessera

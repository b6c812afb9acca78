// Kernels as instructions: the numbers and the scratch memory that each needs on this rank.
#include <algorithm>

#include "base/error.h"
#include "base/sequence_rows.h"
#include "compile/lower/kernel_args.h"
#include "compile/lower/lowering.h"
#include "graph/op_table.h"

namespace tessera {
KernelArgs Lowering::args_of(const Node& node) const {
  KernelArgs args;
  args.head_dim = node.attrs.head_dim;
  args.seq_len = node.attrs.seq_len;
  args.eps = node.attrs.eps;
  args.inverse = node.attrs.inverse;
  args.experts = expert_args(step_, node, program_.rank);
  args.window = node.attrs.window;
  args.page_size = node.attrs.page_size;
  args.scaling = node.attrs.scaling;
  if (multiplies_codes(node.op)) args.dtype = node.attrs.dtype;
  const bool product =
      node.op == OpKind::kServeLinear && graph_.type(node.inputs[1]).on(Axis::kTp) == split(1);
  args.chunks = node.attrs.chunks / (product ? step_.mesh.size(Axis::kTp) : 1);
  switch (row_of(node.op).kernel.numbers) {
    case KernelNumbers::kNone:
      break;
    case KernelNumbers::kTokens:
      add_token_args(node, args);
      break;
    case KernelNumbers::kHeads:
      args.heads = heads_on_tp(node.attrs.heads, node.inputs[0]);
      break;
    case KernelNumbers::kAttention:
      args.heads = heads_on_tp(node.attrs.heads, node.inputs[0]);
      args.kv_heads = heads_on_tp(node.attrs.kv_heads, node.inputs[1]);
      args.heads_per_kv = node.attrs.heads / node.attrs.kv_heads;
      if (split_on_tp(node.inputs[0])) args.first_head = coord(Axis::kTp) * args.heads;
      if (split_on_tp(node.inputs[1])) args.first_kv_head = coord(Axis::kTp) * args.kv_heads;
      add_context_args(node, args);
      args.documents = map_.document_starts.valid();
      break;
    case KernelNumbers::kVocabularyOfTable:
      add_vocabulary_args(node, map_.slots.at(node.inputs[1]).shape[0], args);
      break;
    case KernelNumbers::kVocabularyOfGradient:
      add_vocabulary_args(node, map_.slots.at(node.outputs[0]).shape[0], args);
      break;
    case KernelNumbers::kVocabularyOfLogits:
      add_vocabulary_args(node, map_.slots.at(node.inputs[0]).shape[1], args);
      break;
  }
  return args;
}

bool Lowering::split_on_tp(ValueId value) const {
  return graph_.type(value).on(Axis::kTp).kind == Placement::Kind::kSplit;
}

int64_t Lowering::heads_on_tp(int64_t heads, ValueId value) const {
  return heads / (split_on_tp(value) ? step_.mesh.size(Axis::kTp) : 1);
}

void Lowering::add_token_args(const Node& node, KernelArgs& args) const {
  args.parts = step_.mesh.size(Axis::kCp);
  args.q_part = coord(Axis::kCp);
  // With sequence parallelism a rank's tokens begin inside a sequence, or at a later one.
  if (split_on_tp(node.inputs[0])) {
    args.first_token = coord(Axis::kTp) * map_.slots.at(node.inputs[0]).shape[0];
  }
}

// `rows`: of the vocabulary on this rank.
void Lowering::add_vocabulary_args(const Node& node, int64_t rows, KernelArgs& args) const {
  args.first_row = coord(Axis::kTp) * rows;
  args.valid_rows = std::clamp<int64_t>(node.attrs.vocab - args.first_row, 0, rows);
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

void Lowering::add_extra_operands(const Node& node, int64_t micro_batch,
                                  std::vector<BufferId>& inputs, std::vector<BufferId>& outputs) {
  switch (row_of(node.op).kernel.extra) {
    case ExtraOperands::kNone:
      return;
    case ExtraOperands::kRopeTables:
      if (!map_.rope_cos.valid()) return;  // keys of a model that learns its positions
      inputs.push_back(buffer(map_.rope_cos, "rope.cos"));
      inputs.push_back(buffer(map_.rope_sin, "rope.sin"));
      return;
    case ExtraOperands::kDocumentStarts:
      if (!map_.document_starts.valid()) return;
      inputs.push_back(buffer(map_.document_starts, "document.starts", micro_batch));
      return;
    case ExtraOperands::kRouterLoad: {
      Slot row = map_.router_load;
      row.shape = {node.attrs.experts.experts};
      row.offset += node.attrs.experts.layer * row.bytes();
      outputs.push_back(buffer(row, "router.load"));
      return;
    }
    case ExtraOperands::kWithoutLastInput:
      inputs.pop_back();
      return;
  }
}

void Lowering::lower_kernel(const Node& node, int64_t micro_batch) {
  reserve_scratch(node);
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  for (const ValueId v : node.inputs) inputs.push_back(operand(v, micro_batch));
  for (const ValueId v : node.outputs) outputs.push_back(operand(v, micro_batch));
  const bool adds_in_kernel = row_of(node.op).adds == Adds::kInKernel;
  if (node.accumulate && !adds_in_kernel) {
    const BufferId before = inputs.back();
    inputs.pop_back();
    if (before != outputs[0]) emit(OpKind::kCopy, node, micro_batch, {before}, {outputs[0]});
  }
  add_extra_operands(node, micro_batch, inputs, outputs);
  Instruction& instruction =
      emit(node.op, node, micro_batch, std::move(inputs), std::move(outputs));
  instruction.args = args_of(node);
  set_dropout(step_, node, program_.rank, micro_batch, instruction.args);
  instruction.accumulate = (node.accumulate && !adds_in_kernel) || continues_sum(node, micro_batch);
}

}  // namespace tessera

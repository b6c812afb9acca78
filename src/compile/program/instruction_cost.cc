#include "compile/program/instruction_cost.h"

#include <algorithm>

#include "base/error.h"
#include "base/sequence_rows.h"

namespace tessera {
namespace {

// Pairs of a query and a key that it sees, in all sequences of the micro-batch and one head.
int64_t attended_pairs(const KernelArgs& args, int64_t q_rows) {
  const SequenceRows q{args.seq_len, args.parts, args.q_part};
  const SequenceRows kv{args.seq_len, args.parts, args.kv_part};
  int64_t pairs = 0;
  for (int64_t i = 0; i < q.length(); ++i) {
    const int64_t position = q.position(i);
    pairs += kv.count_before(position + 1);
    if (args.window > 0) pairs -= kv.count_before(position + 1 - args.window);
  }
  return pairs * (q_rows / q.length());
}

// Multiplications and additions of the products of q, k and v: two forward; five backward, where
// the scores are computed again.
int64_t attention_flops(const KernelArgs& args, int64_t q_rows, int64_t products) {
  return 2 * products * attended_pairs(args, q_rows) * args.heads * args.head_dim;
}

int64_t flops_of(const Program& program, const Instruction& instruction) {
  const auto in = [&](size_t i) -> const Shape& {
    return program.buffer(instruction.inputs[i]).shape;
  };
  const auto out = [&]() -> const Shape& { return program.buffer(instruction.outputs[0]).shape; };
  switch (instruction.op) {
    case OpKind::kLinear:    // [T, H] x [F, H] -> [T, F]
    case OpKind::kLinearDx:  // [T, F] x [F, H] -> [T, H]
    case OpKind::kLinearBias:
    case OpKind::kLinearDxGelu:
    case OpKind::kExpertLinear:
    case OpKind::kExpertLinearDx:
      return 2 * numel(out()) * in(0).back();
    case OpKind::kLinearDw:  // [T, F] x [T, H] -> [F, H]
    case OpKind::kLinearDwBias:
      return 2 * numel(out()) * in(0).front();
    case OpKind::kExpertLinearDw: {  // rows of one expert after the other
      const int64_t rows = numel(in(0)) / in(0).back();
      return 2 * numel(out()) / out().front() * rows;
    }
    case OpKind::kAttention:
    case OpKind::kAttentionPart:
      return attention_flops(instruction.args, in(0).front(), 2);
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionGradPart:
      return attention_flops(instruction.args, in(0).front(), 5);
    default:
      return 0;
  }
}

bool same_place(const Buffer& a, const Buffer& b) {
  return a.arena == b.arena && a.offset == b.offset;
}

// The output that an accumulating instruction adds to: of several vectors the first.
size_t added_output(OpKind op) {
  return op == OpKind::kLayerNormGrad || op == OpKind::kRmsNormGrad ? 1 : 0;
}

void add_every_operand(const Program& program, const Instruction& instruction,
                       InstructionCost& cost) {
  for (const BufferId id : instruction.inputs) cost.bytes_read += program.buffer(id).bytes();
  for (const BufferId id : instruction.outputs) cost.bytes_written += program.buffer(id).bytes();
  if (instruction.accumulate) {
    cost.bytes_read += program.buffer(instruction.outputs[added_output(instruction.op)]).bytes();
  }
}

// Weights with a whole master copy are only written.
void add_adamw(const Program& program, const Instruction& instruction, InstructionCost& cost) {
  const size_t buckets = instruction.args.buckets.size();
  const size_t outputs = instruction.outputs.size() / buckets;  // of each
  const bool whole_master = has_whole_master(program, instruction);
  for (size_t i = 0; i < buckets; ++i) {
    cost.bytes_read += program.buffer(instruction.inputs[i]).bytes();
  }
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    const int64_t bytes = program.buffer(instruction.outputs[i]).bytes();
    cost.bytes_written += bytes;
    if (i % outputs > 0 || !whole_master) cost.bytes_read += bytes;
  }
}

void add_bytes(const Program& program, const Instruction& instruction, InstructionCost& cost) {
  const auto in = [&](size_t i) -> const Buffer& { return program.buffer(instruction.inputs[i]); };
  const Buffer* out =
      instruction.outputs.empty() ? nullptr : &program.buffer(instruction.outputs[0]);
  switch (instruction.op) {
    case OpKind::kEmbedding:  // one row of the table for each token
      cost.bytes_read = in(0).bytes() + out->bytes();
      cost.bytes_written = out->bytes();
      return;
    case OpKind::kSumSquares:  // one number for each
      for (size_t i = 0; i < instruction.inputs.size(); ++i) {
        cost.bytes_read += in(i).bytes();
        cost.bytes_written += size_bytes(out->dtype);
      }
      return;
    case OpKind::kRope:
      add_every_operand(program, instruction, cost);
      if (same_place(in(0), *out)) {  // the columns that are not turned stay where they are
        const int64_t turned = out->shape[0] * instruction.args.heads * instruction.args.head_dim *
                               size_bytes(out->dtype);
        cost.bytes_read -= in(0).bytes() - turned;
        cost.bytes_written = turned;
      }
      return;
    case OpKind::kAccumulate:
      add_every_operand(program, instruction, cost);
      cost.bytes_read += out->bytes();
      return;
    case OpKind::kAdamW:
      return add_adamw(program, instruction, cost);
    default:
      add_every_operand(program, instruction, cost);
  }
}

}  // namespace

std::string_view name_of(OpClass op_class) {
  switch (op_class) {
    case OpClass::kProducts:
      return "products";
    case OpClass::kAttention:
      return "attention";
    case OpClass::kNorms:
      return "norms";
    case OpClass::kActivations:
      return "activations";
    case OpClass::kLoss:
      return "loss";
    case OpClass::kOptimizer:
      return "optimizer";
    case OpClass::kEmbedding:
      return "embedding";
    case OpClass::kRouting:
      return "routing";
    case OpClass::kMovement:
      return "movement";
    case OpClass::kCommunication:
      return "communication";
  }
  return "";
}

OpClass class_of(OpKind op) {
  if (is_communication(op)) return OpClass::kCommunication;
  switch (op) {
    case OpKind::kLinear:
    case OpKind::kLinearDx:
    case OpKind::kLinearDw:
    case OpKind::kLinearBias:
    case OpKind::kLinearDxGelu:
    case OpKind::kLinearDwBias:
    case OpKind::kExpertLinear:
    case OpKind::kExpertLinearDx:
    case OpKind::kExpertLinearDw:
      return OpClass::kProducts;
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionPart:
    case OpKind::kAttentionGradPart:
      return OpClass::kAttention;
    case OpKind::kRmsNorm:
    case OpKind::kAddRmsNorm:
    case OpKind::kRmsNormDx:
    case OpKind::kRmsNormDw:
    case OpKind::kRmsNormGrad:
    case OpKind::kLayerNorm:
    case OpKind::kAddLayerNorm:
    case OpKind::kLayerNormDx:
    case OpKind::kLayerNormDw:
    case OpKind::kLayerNormDwBias:
    case OpKind::kLayerNormGrad:
    case OpKind::kHeadNorm:
    case OpKind::kHeadNormDx:
    case OpKind::kHeadNormDw:
      return OpClass::kNorms;
    case OpKind::kRope:
    case OpKind::kSwiGlu:
    case OpKind::kSwiGluGrad:
    case OpKind::kExpertSwiGlu:
    case OpKind::kExpertSwiGluGrad:
    case OpKind::kGelu:
    case OpKind::kGeluGrad:
    case OpKind::kAdd:
    case OpKind::kAddBias:
    case OpKind::kBiasDw:
    case OpKind::kDropout:
      return OpClass::kActivations;
    case OpKind::kCrossEntropyStats:
    case OpKind::kCrossEntropyLoss:
    case OpKind::kCrossEntropyGrad:
      return OpClass::kLoss;
    case OpKind::kSumSquares:
    case OpKind::kMetrics:
    case OpKind::kCountTokens:
    case OpKind::kAdamW:
      return OpClass::kOptimizer;
    case OpKind::kEmbedding:
    case OpKind::kEmbeddingDw:
    case OpKind::kAddPositions:
    case OpKind::kPositionsDw:
      return OpClass::kEmbedding;
    case OpKind::kRouter:
    case OpKind::kRouterGrad:
    case OpKind::kRouterStats:
    case OpKind::kRouterStatsGrad:
    case OpKind::kDispatch:
    case OpKind::kDispatchGrad:
    case OpKind::kCombine:
    case OpKind::kCombineGrad:
    case OpKind::kBalanceTotals:
    case OpKind::kBalanceLoss:
    case OpKind::kBalanceGrad:
      return OpClass::kRouting;
    default:
      return OpClass::kMovement;
  }
}

InstructionCost cost_of(const Program& program, const Instruction& instruction) {
  InstructionCost cost;
  cost.op_class = class_of(instruction.op);
  cost.flops = flops_of(program, instruction);
  add_bytes(program, instruction, cost);
  return cost;
}

}  // namespace tessera

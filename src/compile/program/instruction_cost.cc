#include "compile/program/instruction_cost.h"

#include <algorithm>

#include "base/error.h"
#include "base/sequence_rows.h"
#include "graph/op_table.h"

namespace tessera {
namespace {

// 1 + 2 + … + n, where no term counts for more than `most`; 0 for a negative n.
int64_t capped_sum(int64_t n, int64_t most) {
  const int64_t rising = std::clamp<int64_t>(n, 0, most);
  return rising * (rising + 1) / 2 + std::max<int64_t>(0, n - most) * most;
}

// Pairs of a query and a key that it sees, in all sequences of the micro-batch and one head. Chunk
// by chunk: sequences may have millions of tokens.
int64_t attended_pairs(const KernelArgs& args, int64_t q_rows) {
  const SequenceRows q{args.seq_len, args.parts, args.q_part};
  const SequenceRows kv{args.seq_len, args.parts, args.kv_part};
  int64_t pairs = 0;
  for (int64_t i = 0; i < q.num_chunks(); ++i) {
    for (int64_t j = 0; j < kv.num_chunks(); ++j) {
      // A query this far behind the beginning of a chunk of keys sees as many, and itself.
      const int64_t behind = q.first_position(i) - kv.first_position(j);
      const auto seen = [&](int64_t from) {
        return capped_sum(from + q.chunk_len(), kv.chunk_len()) - capped_sum(from, kv.chunk_len());
      };
      pairs += seen(behind) - (args.window > 0 ? seen(behind - args.window) : 0);
    }
  }
  return pairs * (q_rows / q.length());
}

// Multiplications and additions, two for each pair of a product.
int64_t product_flops(Product product, const Shape& in, const Shape& out) {
  switch (product) {
    case Product::kNone:
      return 0;
    case Product::kRows:
    case Product::kExpertRows:
      return 2 * numel(out) * in.back();
    case Product::kWeights:
      return 2 * numel(out) * in.front();
    case Product::kExpertWeights: {  // rows of one expert after the other
      const int64_t rows = numel(in) / in.back();
      return 2 * numel(out) / out.front() * rows;
    }
  }
  return 0;
}

int64_t flops_of(const Program& program, const Instruction& instruction) {
  const OpCost& cost = row_of(instruction.op).cost;
  const auto in = [&]() -> const Shape& { return program.buffer(instruction.inputs[0]).shape; };
  const KernelArgs& args = instruction.args;
  if (cost.attention_products > 0) {
    const int64_t pairs = attended_pairs(args, in().front());
    return 2 * cost.attention_products * pairs * args.heads * args.head_dim;
  }
  if (cost.product == Product::kNone) return 0;
  return product_flops(cost.product, in(), program.buffer(instruction.outputs[0]).shape);
}

bool same_place(const Buffer& a, const Buffer& b) {
  return a.arena == b.arena && a.offset == b.offset;
}

void add_every_operand(const Program& program, const Instruction& instruction,
                       InstructionCost& cost) {
  // Which pages of a cache are touched, its contents decide.
  const auto counted = [&](BufferId id) {
    const Buffer& buffer = program.buffer(id);
    return buffer.arena == ArenaKind::kCache ? 0 : buffer.bytes();
  };
  for (const BufferId id : instruction.inputs) cost.bytes_read += counted(id);
  for (const BufferId id : instruction.outputs) cost.bytes_written += counted(id);
  if (instruction.accumulate) {
    const size_t added = row_of(instruction.op).cost.added_output;
    cost.bytes_read += program.buffer(instruction.outputs[added]).bytes();
  }
}

// Weights with a whole master copy are only written.
void add_optimizer(const Program& program, const Instruction& instruction, InstructionCost& cost) {
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
  switch (row_of(instruction.op).cost.bytes) {
    case BytesMoved::kOperands:
      return add_every_operand(program, instruction, cost);
    case BytesMoved::kLookedUp:
      cost.bytes_read = in(0).bytes() + out->bytes();
      cost.bytes_written = out->bytes();
      return;
    case BytesMoved::kOneSumEach:
      for (size_t i = 0; i < instruction.inputs.size(); ++i) {
        cost.bytes_read += in(i).bytes();
        cost.bytes_written += size_bytes(out->dtype);
      }
      return;
    case BytesMoved::kTurnedColumns:
      add_every_operand(program, instruction, cost);
      if (same_place(in(0), *out)) {  // the columns that are not turned stay where they are
        const int64_t turned = out->shape[0] * instruction.args.heads * instruction.args.head_dim *
                               size_bytes(out->dtype);
        cost.bytes_read -= in(0).bytes() - turned;
        cost.bytes_written = turned;
      }
      return;
    case BytesMoved::kIntoOutput:
      add_every_operand(program, instruction, cost);
      cost.bytes_read += out->bytes();
      return;
    case BytesMoved::kOptimizer:
      return add_optimizer(program, instruction, cost);
  }
}

}  // namespace

InstructionCost cost_of(const Program& program, const Instruction& instruction) {
  InstructionCost cost;
  cost.op_class = class_of(instruction.op);
  cost.flops = flops_of(program, instruction);
  add_bytes(program, instruction, cost);
  return cost;
}

}  // namespace tessera

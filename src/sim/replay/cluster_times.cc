#include "sim/replay/cluster_times.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/sequence_rows.h"
#include "compile/program/instruction_cost.h"
#include "cost/step/collective_time.h"
#include "cost/step/op_time.h"
#include "graph/op_table.h"

namespace tessera {
namespace {

// Everything that a kernel's time can depend on.
uint64_t shape_of(const Program& program, const Instruction& instruction) {
  Hasher hasher;
  hasher.add(static_cast<int>(instruction.op));
  hasher.add(instruction.accumulate);
  for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
    hasher.add(operands->size());
    for (const BufferId id : *operands) {
      const Buffer& buffer = program.buffer(id);
      hasher.add(static_cast<int>(buffer.dtype));
      hasher.add(buffer.shape.size());
      for (const int64_t size : buffer.shape) hasher.add(size);
    }
  }
  const KernelArgs& args = instruction.args;
  for (const int64_t arg : {args.heads, args.kv_heads, args.head_dim, args.seq_len, args.window,
                            args.parts, args.q_part, args.kv_part}) {
    hasher.add(arg);
  }
  hasher.add(args.buckets.size());
  // Whether a kernel works in place decides what it reads.
  const bool in_place = !instruction.inputs.empty() && !instruction.outputs.empty() &&
                        instruction.inputs[0] == instruction.outputs[0];
  hasher.add(in_place);
  return hasher.value();
}

double product_time(const DeviceSpec& device, const EngineNumbers& engine, MathType math,
                    const Program& program, const Instruction& instruction) {
  const auto in = [&](size_t i) -> const Shape& {
    return program.buffer(instruction.inputs[i]).shape;
  };
  const Shape& out = program.buffer(instruction.outputs[0]).shape;
  const auto filled = [&](int64_t rows) {
    return static_cast<int64_t>(
        std::ceil(static_cast<double>(rows) * filled_part(program, instruction)));
  };
  switch (row_of(instruction.op).cost.product) {
    case Product::kNone:
      break;
    case Product::kRows:
      return product_s(device, engine, math, numel(out) / out.back(), out.back(), in(0).back());
    case Product::kWeights:
      return product_s(device, engine, math, out.front(), out.back(), in(0).front());
    case Product::kExpertWeights: {
      const int64_t experts = out.front();
      const int64_t rows = numel(in(0)) / in(0).back() / experts;
      return product_s(device, engine, math, out[1], out.back(), filled(rows), experts);
    }
    case Product::kExpertRows: {
      const int64_t experts = in(1).front();
      const int64_t rows = numel(out) / out.back() / experts;
      return product_s(device, engine, math, filled(rows), out.back(), in(0).back(), experts);
    }
  }
  TESSERA_CHECK(false, "{} is no product", name_of(instruction.op));
}

double attention_time(const DeviceSpec& device, const EngineNumbers& engine, const Program& program,
                      const Instruction& instruction, const InstructionCost& cost) {
  const KernelArgs& args = instruction.args;
  const int products = row_of(instruction.op).cost.attention_products;
  const bool backward = products == kBackwardProducts;
  const int64_t queries = SequenceRows{args.seq_len, args.parts, args.q_part}.length();
  const int64_t keys = SequenceRows{args.seq_len, args.parts, args.kv_part}.length();
  const int64_t rows = program.buffer(instruction.inputs[0]).shape.front();
  const double all_pairs =
      static_cast<double>(rows) * static_cast<double>(keys) * static_cast<double>(args.heads);
  const double pairs =
      static_cast<double>(cost.flops) / (2 * products * static_cast<double>(args.head_dim));
  const AttentionTime time = flash_attention_s(device, engine,
                                               {.batch_heads = rows / queries * args.heads,
                                                .queries = queries,
                                                .keys = keys,
                                                .query_dim = args.head_dim,
                                                .value_dim = args.head_dim,
                                                .seen = all_pairs > 0 ? pairs / all_pairs : 0});
  return backward ? time.backward_s : time.forward_s;
}

// Ranks of a group are as far apart on average as neighbours of an even one.
RankGroup group_of(const std::vector<int>& ranks) {
  const auto count = static_cast<int64_t>(ranks.size());
  if (count < 2) return {count, 1};
  return {count, std::max<int64_t>(1, (ranks.back() - ranks.front()) / (count - 1))};
}

double collective_s(const Cluster& cluster, const RankGroup& group, CastKind kind, double bytes) {
  switch (kind) {
    case CastKind::kAllReduce:
      return all_reduce_s(cluster, group, bytes);
    case CastKind::kAllGather:
      return all_gather_s(cluster, group, bytes);
    case CastKind::kReduceScatter:
      return reduce_scatter_s(cluster, group, bytes);
    case CastKind::kAllToAll:
      return all_to_all_s(cluster, group, bytes);
    case CastKind::kShift:
      return shift_s(cluster, group, bytes);
    case CastKind::kNothing:
    case CastKind::kSlice:
      break;
  }
  TESSERA_CHECK(false, "{} does not communicate", collective_name(kind));
}

// What the cost model counts of a collective: what a rank has before an all-reduce and after an
// all-gather, before a reduce-scatter, and what it sends in an all-to-all.
double counted_bytes(const Program& program, const Instruction& instruction) {
  const bool gathers = instruction.collective == CastKind::kAllGather;
  const BufferId id = gathers ? instruction.outputs[0] : instruction.inputs[0];
  return static_cast<double>(program.buffer(id).bytes());
}

// Bytes of the weights of experts, or of their gradients, which are moved however few rows there
// are.
double weight_bytes(const Program& program, const Instruction& instruction) {
  switch (row_of(instruction.op).cost.product) {
    case Product::kExpertRows:
      return static_cast<double>(program.buffer(instruction.inputs[1]).bytes());
    case Product::kExpertWeights:
      return static_cast<double>(program.buffer(instruction.outputs[0]).bytes()) *
             (instruction.accumulate ? 2 : 1);
    default:
      return 0;
  }
}

}  // namespace

ClusterTimes::ClusterTimes(Cluster cluster, const EngineNumbers& engine, DType type,
                           Contention contention)
    : cluster_(std::move(cluster)), engine_(engine), contention_(contention) {
  require_config(type != DType::kF64,
                 "train.dtype = \"f64\" has no rate on {}: use f32, bf16 or f16 to simulate",
                 cluster_.device.name);
  if (type == DType::kF32) math_ = MathType::kF32;
  require_config(cluster_.device.peak_flops[static_cast<size_t>(math_)].value > 0,
                 "{} has no peak_flops for {}: add it to the device's file, or use another "
                 "train.dtype",
                 cluster_.device.name, name_of(math_));
  // The cost model divides a bus by all its devices, as if they always talked at once.
  for (LinkLevel& level : cluster_.levels) {
    is_bus_.push_back(level.shape == LinkShape::kShared);
    if (is_bus_.back()) level.shape = LinkShape::kSwitch;
  }
}

int ClusterTimes::link_of(int rank, int level) const {
  const auto at = static_cast<size_t>(level);
  if (at >= is_bus_.size() || !is_bus_[at]) return rank;
  const int64_t devices = cluster_.levels[at].devices;
  return devices == 0 ? 0 : static_cast<int>(rank / devices);
}

int ClusterTimes::num_levels() const {
  return std::max(1, static_cast<int>(cluster_.levels.size()));
}

double ClusterTimes::kernel_s(const Program& program, const Instruction& instruction) const {
  const auto [found, is_new] = known_.try_emplace(shape_of(program, instruction), 0);
  if (is_new) found->second = fresh_kernel_s(program, instruction);
  return found->second;
}

double ClusterTimes::fresh_kernel_s(const Program& program, const Instruction& instruction) const {
  const InstructionCost cost = cost_of(program, instruction);
  const DeviceSpec& device = cluster_.device;
  const double weights = weight_bytes(program, instruction);
  const double bytes =
      weights + (static_cast<double>(cost.bytes_read + cost.bytes_written) - weights) *
                    filled_part(program, instruction);
  double seconds = memory_s(device, bytes);
  if (cost.op_class == OpClass::kProducts) {
    const bool eight = multiplies_codes(instruction.op) && device.peak(MathType::kF8) > 0;
    const MathType math = eight ? MathType::kF8 : math_;
    seconds = std::max(seconds, product_time(device, engine_, math, program, instruction));
  } else if (cost.op_class == OpClass::kAttention) {
    seconds = std::max(seconds, attention_time(device, engine_, program, instruction, cost));
  }
  return std::max(seconds, device.launch_s.value);
}

TransferTime ClusterTimes::transfer(const Program& program, const Instruction& instruction,
                                    const std::vector<int>& ranks) const {
  const double bytes = counted_bytes(program, instruction);
  if (instruction.stream == StreamKind::kPipe) {
    const SendTime sent = send_time(cluster_, ranks.front(), ranks.back(), bytes);
    return {sent.latency_s, sent.wire_s, sent.level, contention_.message};
  }
  const RankGroup group = group_of(ranks);
  TransferTime time;
  time.kernel_share = contention_.collective;
  time.level = links_of(cluster_, group).level;
  time.latency_s = collective_s(cluster_, group, instruction.collective, 1);
  time.wire_s =
      std::max(0.0, collective_s(cluster_, group, instruction.collective, bytes) - time.latency_s);
  return time;
}

}  // namespace tessera

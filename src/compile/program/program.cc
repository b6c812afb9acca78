#include "compile/program/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text/text.h"
#include "compile/program/comm_call.h"

namespace tessera {

std::string_view name_of(ArenaKind arena) {
  static constexpr std::array<std::string_view, kNumArenas> kNames = {
      "parameters", "gradients", "optimizer", "activations", "communication", "workspace", "cache"};
  return kNames[static_cast<size_t>(arena)];
}

std::string_view name_of(StreamKind stream) {
  static constexpr std::array<std::string_view, kNumStreams> kNames = {"compute", "comm", "pipe",
                                                                       "data"};
  return kNames[static_cast<size_t>(stream)];
}

bool has_master(const Instruction& instruction) {
  return instruction.outputs.size() / instruction.args.buckets.size() >
         1 + static_cast<size_t>(instruction.args.states);
}

bool has_whole_master(const Program& program, const Instruction& instruction) {
  const auto dtype = [&](size_t i) { return program.buffer(instruction.outputs[i]).dtype; };
  const size_t master = 1 + static_cast<size_t>(instruction.args.states);
  return has_master(instruction) && dtype(master) != dtype(0);
}

GroupId group_of(const Instruction& instruction) {
  return {instruction.group, instruction.ends_only};
}

std::string name_of(const GroupId& group) {
  return name_of(group.axes) + (group.ends_only ? ".ends" : "");
}

std::vector<int> members_of(const Program& program, const GroupId& group) {
  std::vector<int> members = program.mesh.peers(program.rank, group.axes);
  if (!group.ends_only) return members;
  std::erase_if(members, [&](int rank) {
    const int64_t at = program.mesh.coord(rank, Axis::kPp);
    return at != program.pipeline_ends[0] && at != program.pipeline_ends[1];
  });
  return members;
}

std::string_view communication_name(const Instruction& instruction) {
  if (instruction.stream == StreamKind::kPipe) return name_of(instruction.op);
  return collective_name(instruction.collective);
}

std::string_view collective_name(CastKind kind) {
  switch (kind) {
    case CastKind::kAllReduce:
      return "all_reduce";
    case CastKind::kAllGather:
      return "all_gather";
    case CastKind::kReduceScatter:
      return "reduce_scatter";
    case CastKind::kAllToAll:
      return "all_to_all";
    case CastKind::kShift:
      return "shift";
    case CastKind::kNothing:
    case CastKind::kSlice:
      break;
  }
  return "local";
}

int64_t Program::total_bytes() const {
  int64_t total = 0;
  for (const int64_t bytes : arena_bytes) total += bytes;
  return total;
}

int64_t bytes_sent(const Program& program, const Instruction& instruction) {
  const GroupPlace place =
      place_in(program.mesh, program.pipeline_ends, program.rank, group_of(instruction));
  return bytes_sent(call_of(program, instruction), place.size, place.position);
}

std::vector<Traffic> traffic_of(const Program& program) {
  return traffic_of(calls_of(program), program.mesh, program.pipeline_ends, program.rank);
}

namespace {

void add_buffer(Hasher& hasher, const Program& program, BufferId id) {
  const Buffer& buffer = program.buffer(id);
  hasher.add(static_cast<int>(buffer.arena));
  hasher.add(buffer.offset);
  hasher.add(static_cast<int>(buffer.dtype));
  hasher.add(buffer.shape.size());
  for (const int64_t d : buffer.shape) hasher.add(d);
}

}  // namespace

uint64_t hash_of(const Program& program, const Instruction& i) {
  Hasher hasher;
  hasher.add(static_cast<int>(i.op));
  hasher.add(static_cast<int>(i.collective));
  hasher.add(i.group.bits());
  hasher.add(i.ends_only);
  hasher.add(i.peer);
  hasher.add(static_cast<int>(i.stream));
  for (const BufferId id : i.inputs) add_buffer(hasher, program, id);
  hasher.add(std::string_view(">"));
  for (const BufferId id : i.outputs) add_buffer(hasher, program, id);
  hasher.add(i.accumulate);
  for (const int64_t arg :
       {i.args.heads, i.args.kv_heads, i.args.head_dim, i.args.seq_len, i.args.heads_per_kv,
        i.args.first_head, i.args.first_kv_head, i.args.first_row, i.args.valid_rows, i.args.parts,
        i.args.q_part, i.args.kv_part, i.args.column_groups, i.args.window, i.args.first_token}) {
    hasher.add(arg);
  }
  for (const int64_t arg : {i.args.unit, i.args.first_sample}) hasher.add(arg);
  hasher.add(i.args.dropout);
  hasher.add(static_cast<int>(i.args.site));
  hasher.add(i.args.eps);
  hasher.add(i.args.inverse);
  if (i.args.documents) hasher.add(i.args.documents);
  hasher.add(i.args.buckets.size());
  for (const BucketArgs& bucket : i.args.buckets) {
    hasher.add(bucket.index);
    hasher.add(bucket.decay);
  }
  hasher.add(i.args.owner);
  const ExpertArgs& e = i.args.experts;
  for (const int64_t arg : {e.first_token, e.tokens_per_sequence, e.experts, e.layers, e.seq_len,
                            e.group, e.first_sequence, e.sequences}) {
    hasher.add(arg);
  }
  hasher.add(e.coef);
  hasher.add(i.args.update);
  hasher.add(i.args.updates);
  if (i.op == OpKind::kSgd) hasher.add(i.args.states);
  for (const int event : i.waits) hasher.add(event);
  if (i.tree) hasher.add(i.tree);
  if (i.twins) hasher.add(std::string_view("twins"));
  if (i.maximum) hasher.add(std::string_view("maximum"));
  if (i.args.lanes > 0) {
    hasher.add(i.args.lanes);
    hasher.add(i.args.first_lane);
  }
  if (i.args.page_size > 0) hasher.add(i.args.page_size);
  if (i.args.chunks > 1) hasher.add(i.args.chunks);
  if (i.args.scaling != KernelArgs().scaling || i.args.dtype != DType::kF32) {
    for (const Scaling& scaling : i.args.scaling) {
      hasher.add(static_cast<int>(scaling.format));
      hasher.add(scaling.rows);
      hasher.add(scaling.cols);
    }
    hasher.add(static_cast<int>(i.args.dtype));
  }
  hasher.add(i.signal);
  hasher.add(i.micro_batch);
  return hasher.value();
}

std::string digest_of(const std::vector<uint64_t>& hashes) {
  Hasher hasher;
  for (const uint64_t hash : hashes) hasher.add(hash);
  return hex(hasher.value());
}

std::string digest_of(const Program& program) {
  std::vector<uint64_t> hashes;
  hashes.reserve(program.instructions.size());
  for (const Instruction& i : program.instructions) hashes.push_back(hash_of(program, i));
  return digest_of(hashes);
}

namespace {

std::string operand_text(const Program& program, BufferId id) {
  const Buffer& b = program.buffer(id);
  return fmt::format("{}[{} {} @{}+{}]", b.name, name_of(b.dtype), to_string(b.shape),
                     name_of(b.arena).substr(0, 3), b.offset);
}

std::string operands_text(const Program& program, const std::vector<BufferId>& ids) {
  std::string text;
  for (const BufferId id : ids) {
    if (!text.empty()) text += ", ";
    text += operand_text(program, id);
  }
  return text;
}

std::string line_of(const Program& program, size_t index) {
  const Instruction& i = program.instructions[index];
  const bool communicates = i.stream != StreamKind::kCompute;
  std::string op(communicates ? communication_name(i) : name_of(i.op));
  if (communicates) op += ":" + name_of(group_of(i));
  if (i.peer >= 0) op += fmt::format("[{}]", i.peer);
  if (i.maximum) op += " max";
  if (i.accumulate) op += " +=";
  const std::string where = i.micro_batch < 0 ? "step" : fmt::format("mb{}", i.micro_batch);
  std::string line =
      fmt::format("{:5} {:7} {:4} {} u{:<3} {} = {}", index, name_of(i.stream), where,
                  name_of(i.tag.pass), i.tag.unit, operands_text(program, i.outputs), op);
  if (!i.inputs.empty()) line += " " + operands_text(program, i.inputs);
  if (!i.waits.empty()) line += fmt::format("  wait {}", fmt::join(i.waits, ","));
  if (i.signal >= 0) line += fmt::format("  signal {}", i.signal);
  return line;
}

}  // namespace

std::string to_text(const Program& program) {
  std::string text = fmt::format(
      "program of rank {} ({}), {}, {}\n", program.rank, program.mesh.describe(program.rank),
      count_of(program.micro_batches, "micro-batch"), count_of(program.threads, "thread"));
  for (const ArenaKind arena : kAllArenas) {
    if (arena == ArenaKind::kCache && program.serve.caches.empty()) continue;
    text += fmt::format("arena {:13} {} bytes\n", name_of(arena),
                        program.arena_bytes[static_cast<size_t>(arena)]);
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    text += line_of(program, i);
    text += '\n';
  }
  return text;
}

}  // namespace tessera

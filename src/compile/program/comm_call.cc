#include "compile/program/comm_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "collective/algorithm.h"
#include "collective/slices.h"

namespace tessera {

CommCall call_of(const Program& program, const Instruction& instruction) {
  const bool receives = instruction.op == OpKind::kReceive;
  const bool by_output = receives || instruction.collective == CastKind::kReduceScatter;
  const Buffer& data = program.buffer(by_output ? instruction.outputs[0] : instruction.inputs[0]);
  return {group_of(instruction), instruction.op, instruction.collective, numel(data.shape),
          size_bytes(data.dtype)};
}

int64_t bytes_sent(const CommCall& call, int64_t size, int position) {
  const int64_t bytes = call.count * call.element_bytes;
  if (call.op == OpKind::kSend) return bytes;
  if (call.op == OpKind::kReceive) return 0;
  switch (call.collective) {
    case CastKind::kAllReduce: {
      const auto ranks = static_cast<int>(size);
      if (choose_algorithm(CollectiveOp::kAllReduce, bytes, ranks) == Algorithm::kOneShot) {
        return bytes * (size - 1);
      }
      const int64_t own = all_reduce_slice(call.count, call.element_bytes, position, ranks).size();
      return (call.count - own + own * (size - 1)) * call.element_bytes;
    }
    case CastKind::kAllGather:
    case CastKind::kReduceScatter:
      return bytes * (size - 1);
    case CastKind::kAllToAll:
      return bytes / size * (size - 1);
    case CastKind::kShift:
      return bytes;
    default:
      TESSERA_CHECK(false, "{} is not lowered", collective_name(call.collective));
  }
  return 0;
}

CallCounts calls_of(const Program& program) {
  CallCounts counts;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.stream != StreamKind::kCompute) ++counts[call_of(program, instruction)];
  }
  return counts;
}

GroupPlace place_in(const Mesh& mesh, const std::array<int, 2>& pipeline_ends, int rank,
                    const GroupId& group) {
  if (!group.ends_only) return {mesh.size(group.axes), mesh.position(rank, group.axes)};
  // The two ends of the pipeline; they are one where both lie on one rank.
  const auto [low, high] = std::minmax(pipeline_ends[0], pipeline_ends[1]);
  const int64_t others = mesh.size(group.axes) / mesh.size(Axis::kPp);
  TESSERA_CHECK(others == 1, "ends of {}", name_of(group.axes));
  return {low == high ? 1 : 2, low != high && mesh.coord(rank, Axis::kPp) == high ? 1 : 0};
}

std::vector<Traffic> traffic_of(const CallCounts& calls, const Mesh& mesh,
                                const std::array<int, 2>& pipeline_ends, int rank) {
  std::map<std::pair<std::string, std::string>, Traffic> sums;
  for (const auto& [call, times] : calls) {
    const std::string group = name_of(call.group);
    const auto add = [&, n = times](std::string_view op, int64_t bytes) {
      Traffic& traffic = sums[{group, std::string(op)}];
      traffic.group = group;
      traffic.op = op;
      traffic.calls += n;
      traffic.bytes_sent += bytes * n;
    };
    const GroupPlace place = place_in(mesh, pipeline_ends, rank, call.group);
    const int64_t bytes = bytes_sent(call, place.size, place.position);
    const bool message = call.op == OpKind::kSend || call.op == OpKind::kReceive;
    if (call.collective == CastKind::kShift) {  // what communicators count of it
      add("send", bytes);
      add("receive", 0);
    } else {
      add(message ? name_of(call.op) : collective_name(call.collective), bytes);
    }
  }
  std::vector<Traffic> list;
  for (auto& [key, traffic] : sums) list.push_back(std::move(traffic));
  return list;
}

}  // namespace tessera

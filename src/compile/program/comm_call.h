// One call of a collective, or one message, by its sizes: what a rank sends in it depends on those
// and on its place in the group.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "compile/program/program.h"

namespace tessera {

struct CommCall {
  GroupId group;
  OpKind op = OpKind::kCast;                 // kSend and kReceive: a message
  CastKind collective = CastKind::kNothing;  // of what is no message
  int64_t count = 0;                         // elements of the input; reduce_scatter: of the output
  int64_t element_bytes = 0;
  friend auto operator<=>(const CommCall&, const CommCall&) = default;
};
CommCall call_of(const Program& program, const Instruction& instruction);

// Payload sent by the rank at `position` of a group of `size`.
int64_t bytes_sent(const CommCall& call, int64_t size, int position);

// How often a call is made in a step. Sorted, so that everything made of it is the same each time.
using CallCounts = std::map<CommCall, int64_t>;
CallCounts calls_of(const Program& program);

// Where a rank stands in one of its groups.
struct GroupPlace {
  int64_t size = 1;
  int position = 0;
};
GroupPlace place_in(const Mesh& mesh, const std::array<int, 2>& pipeline_ends, int rank,
                    const GroupId& group);
// What that rank sends, sorted by group and op as traffic_of(program).
std::vector<Traffic> traffic_of(const CallCounts& calls, const Mesh& mesh,
                                const std::array<int, 2>& pipeline_ends, int rank);

}  // namespace tessera

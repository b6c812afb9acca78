#include "comm/nccl/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>

namespace tessera::nccl {
namespace {

// Elements of the input and of the output.
struct Counts {
  int64_t in = 0;
  int64_t out = 0;
};

Counts element_counts(const CollectiveCall& call, int rank, int size) {
  const int64_t one = call.count;
  const int64_t all = one * size;
  const bool is_root = rank == call.root;
  const auto sum = [](std::span<const int64_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  };
  switch (call.op) {
    case CollectiveOp::kBroadcast:
      return {0, one};
    case CollectiveOp::kScatter:
      return {is_root ? all : 0, one};
    case CollectiveOp::kGather:
      return {one, is_root ? all : 0};
    case CollectiveOp::kReduce:
      return {one, is_root ? one : 0};
    case CollectiveOp::kAllGather:
      return {one, all};
    case CollectiveOp::kReduceScatter:
      return {all, one};
    case CollectiveOp::kAllReduce:
      return {one, one};
    case CollectiveOp::kAllToAll:
      return {all, all};
    case CollectiveOp::kAllToAllV:
      return {sum(call.send_counts), sum(call.receive_counts)};
    case CollectiveOp::kSend:
      return {one, 0};
    case CollectiveOp::kReceive:
      return {0, one};
    case CollectiveOp::kBarrier:
      return {0, 0};
  }
  return {};
}

// Where `out` must lie, in bytes after `in`, to be in place.
std::optional<int64_t> in_place_offset(const CollectiveCall& call, int rank, int64_t shard_bytes) {
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
    case CollectiveOp::kAllToAll:
      return 0;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kScatter:
      return rank * shard_bytes;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kGather:
      return -rank * shard_bytes;
    default:
      return std::nullopt;
  }
}

bool overlap_badly(const CollectiveCall& call, int rank, const BufferUse& in,
                   const BufferUse& out) {
  if (in.size_bytes == 0 || out.size_bytes == 0) return false;
  const auto first = reinterpret_cast<intptr_t>(in.data);
  const auto second = reinterpret_cast<intptr_t>(out.data);
  if (first + in.size_bytes <= second || second + out.size_bytes <= first) return false;
  const int64_t shard_bytes = call.count * size_bytes(call.dtype);
  const std::optional<int64_t> in_place = in_place_offset(call, rank, shard_bytes);
  return !in_place || second - first != *in_place;
}

std::string counts_problem(const CollectiveCall& call, int size) {
  if (call.op != CollectiveOp::kAllToAllV) {
    return call.count >= 0 ? "" : fmt::format("count {}: it must not be negative", call.count);
  }
  for (const std::span<const int64_t> counts : {call.send_counts, call.receive_counts}) {
    if (counts.size() != static_cast<size_t>(size)) {
      return fmt::format("{} counts: there are {} ranks", counts.size(), size);
    }
    const auto smallest = std::min_element(counts.begin(), counts.end());
    if (*smallest < 0) return fmt::format("count {}: it must not be negative", *smallest);
  }
  return "";
}

std::string root_problem(const CollectiveCall& call, int rank, int size) {
  if (!has_root(call.op) && !is_point_to_point(call.op)) return "";
  const std::string_view who = has_root(call.op) ? "root" : "peer";
  if (call.root < 0 || call.root >= size) {
    return fmt::format("{} {}: ranks are 0 to {}", who, call.root, size - 1);
  }
  if (is_point_to_point(call.op) && call.root == rank) {
    return fmt::format("peer {}: that is the caller itself; copy instead", call.root);
  }
  return "";
}

}  // namespace

BufferUse input_of(const CollectiveCall& call, int rank, int size) {
  return {call.in, element_counts(call, rank, size).in * size_bytes(call.dtype)};
}

BufferUse output_of(const CollectiveCall& call, int rank, int size) {
  return {call.out, element_counts(call, rank, size).out * size_bytes(call.dtype)};
}

std::string argument_problem(const CollectiveCall& call, int rank, int size) {
  std::string problem = counts_problem(call, size);
  if (problem.empty()) problem = root_problem(call, rank, size);
  if (!problem.empty()) return problem;
  const BufferUse in = input_of(call, rank, size);
  const BufferUse out = output_of(call, rank, size);
  if (in.size_bytes > 0 && in.data == nullptr) return "a null input";
  if (out.size_bytes > 0 && out.data == nullptr) return "a null output";
  if (overlap_badly(call, rank, in, out)) return "an output that overlaps the input out of place";
  return "";
}

}  // namespace tessera::nccl

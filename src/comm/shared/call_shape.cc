#include "comm/shared/call_shape.h"

#include <numeric>

#include "collective/schedule.h"
#include "comm/shared/layout.h"

namespace tessera::shared {
namespace {

int64_t sum(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

bool is_integer(DType dtype) {
  return dtype == DType::kI32 || dtype == DType::kI64 || dtype == DType::kU8;
}

std::string wrong_algorithm(const CollectiveCall& call, int size) {
  if (call.algorithm == Algorithm::kAuto) return "";
  if (along_tree(call.reduce) && !promises_rank_order(call.algorithm)) {
    return fmt::format("{} adds in an order of its own: use direct", name_of(call.algorithm));
  }
  if (!supports(call.op, call.algorithm)) return what_is_unsupported(call.op, call.algorithm);
  const int64_t bytes = num_blocks(call, size) * call.count * size_bytes(call.dtype);
  if (call.algorithm != Algorithm::kOneShot || bytes <= kMailBytes) return "";
  return fmt::format("one_shot takes at most {} bytes, not {}: use direct", kMailBytes, bytes);
}

std::string wrong_counts(const CollectiveCall& call, int size) {
  if (call.op != CollectiveOp::kAllToAllV) {
    return call.count < 0 ? fmt::format("count is {}", call.count) : "";
  }
  for (const std::span<const int64_t> counts : {call.send_counts, call.receive_counts}) {
    if (static_cast<int>(counts.size()) != size) {
      return fmt::format("{} counts for {} ranks", counts.size(), size);
    }
    for (const int64_t count : counts) {
      if (count < 0) return fmt::format("a count is {}", count);
    }
  }
  return "";
}

// The one overlap that is in place, in bytes of `out` after `in`; -1 where there is none.
int64_t place_of(const CollectiveCall& call, int rank, int size, int64_t shard) {
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
    case CollectiveOp::kAllToAll:
      return 0;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kScatter:
      return rank * shard;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kGather:
      return -rank * shard;
    default:
      return size * shard + 1;  // never
  }
}

std::string wrong_overlap(const CollectiveCall& call, int rank, int size) {
  const int64_t in_bytes = input_bytes(call, rank, size);
  const int64_t out_bytes = output_bytes(call, rank, size);
  if (in_bytes == 0 || out_bytes == 0) return "";
  const auto in = reinterpret_cast<intptr_t>(call.in);
  const auto out = reinterpret_cast<intptr_t>(call.out);
  if (in + in_bytes <= out || out + out_bytes <= in) return "";
  const int64_t shard = call.count * size_bytes(call.dtype);
  const int64_t allowed = place_of(call, rank, size, shard);
  if (out - in == allowed) return "";
  const bool none = call.op == CollectiveOp::kAllToAllV;
  return fmt::format("the output begins {} bytes after the input and overlaps it: {}", out - in,
                     none ? "it must not" : fmt::format("only {} is in place", allowed));
}

}  // namespace

int num_blocks(const CollectiveCall& call, int size) {
  switch (call.op) {
    case CollectiveOp::kScatter:
    case CollectiveOp::kGather:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kAllToAllV:
      return size;
    default:
      return 1;
  }
}

int64_t input_bytes(const CollectiveCall& call, int rank, int size) {
  const int64_t shard = call.count * size_bytes(call.dtype);
  switch (call.op) {
    case CollectiveOp::kBroadcast:
      return rank == call.root ? shard : 0;
    case CollectiveOp::kScatter:
      return rank == call.root ? size * shard : 0;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return size * shard;
    case CollectiveOp::kAllToAllV:
      return sum(call.send_counts) * size_bytes(call.dtype);
    case CollectiveOp::kReceive:
    case CollectiveOp::kBarrier:
      return 0;
    default:
      return shard;
  }
}

int64_t output_bytes(const CollectiveCall& call, int rank, int size) {
  const int64_t shard = call.count * size_bytes(call.dtype);
  switch (call.op) {
    case CollectiveOp::kBroadcast:
      return rank == call.root ? 0 : shard;
    case CollectiveOp::kGather:
      return rank == call.root ? size * shard : 0;
    case CollectiveOp::kReduce:
      return rank == call.root ? shard : 0;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllToAll:
      return size * shard;
    case CollectiveOp::kAllToAllV:
      return sum(call.receive_counts) * size_bytes(call.dtype);
    case CollectiveOp::kSend:
    case CollectiveOp::kBarrier:
      return 0;
    default:
      return shard;
  }
}

uint64_t extend_history(uint64_t history, const CollectiveCall& call) {
  const auto kind = static_cast<uint64_t>(call.op) | static_cast<uint64_t>(call.reduce) << 8 |
                    static_cast<uint64_t>(call.dtype) << 16 |
                    static_cast<uint64_t>(call.algorithm) << 24 |
                    static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32;
  for (const uint64_t word :
       {kind, static_cast<uint64_t>(call.tag), static_cast<uint64_t>(call.count)}) {
    history = (history ^ word) * 0x9E3779B97F4A7C15U;
    history ^= history >> 32;
  }
  return history;
}

bool peers_read_input(CollectiveOp op) { return op != CollectiveOp::kGather; }

bool peers_store_output(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
    case CollectiveOp::kGather:
    case CollectiveOp::kAllToAll:  // when somebody works in place
      return true;
    default:
      return false;
  }
}

bool has_schedule(const CollectiveCall& call) {
  return call.algorithm != Algorithm::kAuto && call.algorithm != Algorithm::kOneShot &&
         call.algorithm != Algorithm::kDirect;
}

bool fits_mail(const CollectiveCall& call, int size) {
  if (call.algorithm == Algorithm::kOneShot) return true;
  if (call.op == CollectiveOp::kAllToAllV || call.algorithm != Algorithm::kAuto) return false;
  if (call.op == CollectiveOp::kBarrier) return true;
  const bool whole = call.op != CollectiveOp::kAllGather && call.op != CollectiveOp::kGather;
  const int64_t blocks = whole ? num_blocks(call, size) : 1;
  const int64_t bytes = blocks * call.count * size_bytes(call.dtype);
  if (call.op == CollectiveOp::kAllReduce) {
    return choose_algorithm(call.op, bytes, size) == Algorithm::kOneShot;
  }
  return bytes <= one_shot_bytes(size);
}

std::string what_is_wrong(const CollectiveCall& call, int rank, int size) {
  if (call.op == CollectiveOp::kBarrier) return "";
  std::string wrong = wrong_counts(call, size);
  if (!wrong.empty()) return wrong;
  if ((has_root(call.op) || is_point_to_point(call.op)) && (call.root < 0 || call.root >= size)) {
    return fmt::format("ranks are 0 to {}", size - 1);
  }
  if (reduces(call.op) && call.reduce == ReduceOp::kMean && is_integer(call.dtype)) {
    return "integers have no mean: use sum, or a floating-point type";
  }
  wrong = wrong_algorithm(call, size);
  if (!wrong.empty()) return wrong;
  const bool broadcasts = call.op == CollectiveOp::kBroadcast;
  if (input_bytes(call, rank, size) > 0 && !broadcasts && call.in == nullptr) {
    return "the input is null";
  }
  const bool needs_output = output_bytes(call, rank, size) > 0 || (broadcasts && call.count > 0);
  if (needs_output && call.out == nullptr) return "the output is null";
  return broadcasts ? "" : wrong_overlap(call, rank, size);
}

}  // namespace tessera::shared

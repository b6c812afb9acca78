#include "bench/bench_case.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {

bool is_split(CollectiveOp op) {
  return op == CollectiveOp::kScatter || op == CollectiveOp::kGather ||
         op == CollectiveOp::kAllGather || op == CollectiveOp::kReduceScatter ||
         op == CollectiveOp::kAllToAll;
}

bool has_in_place_choice(CollectiveOp op) { return op != CollectiveOp::kBroadcast; }

int64_t BenchCase::array_bytes() const {
  return count * size_bytes(dtype) * (is_split(op) ? ranks : 1);
}

BenchCase case_of_size(BenchCase shape, int64_t array_bytes) {
  const int64_t unit = size_bytes(shape.dtype) * (is_split(shape.op) ? shape.ranks : 1);
  shape.count = std::max<int64_t>(array_bytes / unit, 1);
  return shape;
}

CollectiveCall call_of(const BenchCase& bench, int rank, const BenchArrays& arrays) {
  CollectiveCall call;
  call.op = bench.op;
  call.reduce = bench.reduce;
  call.dtype = bench.dtype;
  call.root = kBenchRoot;
  call.count = bench.count;
  call.algorithm = bench.algorithm;
  call.in = arrays.in;
  call.out = arrays.out;
  const int64_t place = rank * bench.count * size_bytes(bench.dtype);
  switch (bench.op) {
    case CollectiveOp::kBroadcast:
      call.out = arrays.in;
      break;
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
    case CollectiveOp::kAllToAll:
      if (bench.in_place) call.out = arrays.in;
      break;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kScatter:
      if (bench.in_place) call.out = arrays.in + place;
      break;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kGather:
      if (bench.in_place) call.in = arrays.out + place;
      break;
    default:
      TESSERA_CHECK(false, "{} is not measured", name_of(bench.op));
  }
  return call;
}

double bus_factor(CollectiveOp op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (op == CollectiveOp::kAllReduce) return 2 * others;
  return is_split(op) ? others : 1;
}

MemoryWork memory_work(const BenchCase& bench) {
  const int n = bench.ranks;
  const int64_t array = bench.array_bytes();
  switch (bench.op) {
    case CollectiveOp::kAllReduce:
      return {.sources = n, .targets = n, .in_place = bench.in_place, .stream_bytes = array};
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kReduce:
      return {.sources = n, .targets = 1, .stream_bytes = array};
    case CollectiveOp::kAllGather:
      return {.sources = 1, .targets = n, .stream_bytes = array};
    case CollectiveOp::kBroadcast:
      return {.sources = 1, .targets = std::max(n - 1, 1), .stream_bytes = array};
    case CollectiveOp::kAllToAll:
      return {.sources = 1, .targets = 1, .stream_bytes = n * array};
    default:
      return {.sources = 1, .targets = 1, .stream_bytes = array};
  }
}

}  // namespace tessera

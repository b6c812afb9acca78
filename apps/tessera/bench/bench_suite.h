// What `tessera bench comm` is to measure, read from its flags. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench_case.h"
#include "bench/bench_comm.h"
#include "bench/bench_sweep.h"

namespace tessera {

enum class BenchBackend : uint8_t { kShm, kLocal, kMpi, kNccl };
constexpr int kNumBenchBackends = 4;
std::string_view name_of(BenchBackend backend);

struct BenchSuite {
  std::vector<CollectiveOp> ops;
  std::vector<int> ranks;
  std::vector<int64_t> sizes;  // bytes of the full array, ascending
  BenchBackend backend = BenchBackend::kShm;
  Algorithm algorithm = Algorithm::kAuto;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  enum class Place : uint8_t { kUsual, kIn, kOut } place = Place::kUsual;  // usual: as peers do
  SweepOptions sweep;

  // The cases of one op and number of ranks, in order of size.
  [[nodiscard]] std::vector<BenchCase> cases(CollectiveOp op, int num_ranks) const;
  [[nodiscard]] int64_t largest_array_bytes(CollectiveOp op, int num_ranks) const;

  // The command line that gives this plan with one op and number of ranks.
  [[nodiscard]] std::vector<std::string> arguments(CollectiveOp op, int num_ranks) const;
};

// Throws ConfigError naming the flag, the value and what is possible.
BenchSuite parse_bench_suite(const BenchCommOptions& options);

// "1K-256M" (steps of four), "64K", "1K,3M,1000": bytes, with K, M and G as powers of 1024.
std::vector<int64_t> parse_sizes(std::string_view text);

// What a call may ask for on a backend, kAuto not among them; nothing where the library behind the
// backend chooses alone.
std::vector<Algorithm> algorithms_of(BenchBackend backend, CollectiveOp op);

}  // namespace tessera

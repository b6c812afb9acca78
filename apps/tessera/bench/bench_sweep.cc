#include "bench/bench_sweep.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "bench/bench_pattern.h"

namespace tessera {
namespace {

constexpr double kSampleSeconds = 2e-3;
constexpr double kShortestCall = 1e-7;
constexpr double kSlowCall = 0.3;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class CaseMeasurement {
 public:
  CaseMeasurement(Communicator& group, Communicator& host, RankArrays& arrays,
                  const BenchCase& bench, const SweepOptions& options)
      : group_(group),
        host_(host),
        arrays_(arrays),
        bench_(bench),
        options_(options),
        call_(call_of(bench, group.rank(), arrays.arrays())) {}

  BenchRow run(size_t index) {
    BenchRow row;
    row.index = index;
    row.wrong = check(index + 1);
    for (int i = 0; i < 2; ++i) group_.run(call_);
    host_.barrier();
    const double start = now_s();
    group_.run(call_);
    double estimate = now_s() - start;
    host_.all_reduce(&estimate, 1, DType::kF64, 0, ReduceOp::kMax);
    choose_lengths(estimate, row);
    const std::vector<double> times = sample(row);
    row.seconds = times[times.size() / 2];
    row.fastest_s = times.front();
    row.slowest_s = times.back();
    return row;
  }

 private:
  // Leaves zeros behind: sums of them stay zero however often they are repeated.
  int64_t check(uint64_t seed) {
    const int64_t size = bench_.array_bytes();
    fill_arrays(bench_, group_.rank(), arrays_.on_host(), seed);
    arrays_.upload(size);
    group_.run(call_);
    arrays_.download(size);
    if (options_.corrupt && group_.rank() == 0) spoil_result();
    int64_t wrong = count_wrong(bench_, group_.rank(), arrays_.on_host(), seed);
    host_.all_reduce(&wrong, 1, DType::kI64);
    const BenchArrays on_host = arrays_.on_host();
    std::fill_n(on_host.in, size, std::byte{0});
    std::fill_n(on_host.out, size, std::byte{0});
    arrays_.upload(size);
    return wrong;
  }

  // Rank 0 is also the root, so it always has a result.
  void spoil_result() {
    void* result = call_of(bench_, group_.rank(), arrays_.on_host()).out;
    *static_cast<std::byte*>(result) ^= std::byte{1};
  }

  void choose_lengths(double estimate, BenchRow& row) const {
    const double calls = std::clamp(kSampleSeconds / std::max(estimate, kShortestCall), 1.0, 20.0);
    row.calls_per_sample = options_.touch ? 1 : static_cast<int>(calls);
    const double sample_s = std::max(estimate * row.calls_per_sample, kShortestCall);
    const double fewest = estimate > kSlowCall ? 3 : 5;
    row.samples = static_cast<int>(std::clamp(options_.budget_s / sample_s, fewest, 101.0));
  }

  // Sorted, each of the slowest rank.
  std::vector<double> sample(const BenchRow& row) {
    std::vector<double> times(static_cast<size_t>(row.samples));
    for (double& time : times) {
      if (options_.touch) arrays_.rewrite_input(bench_.array_bytes());
      host_.barrier();
      const double start = now_s();
      for (int i = 0; i < row.calls_per_sample; ++i) group_.run(call_);
      time = (now_s() - start) / row.calls_per_sample;
    }
    host_.all_reduce(times.data(), row.samples, DType::kF64, 0, ReduceOp::kMax);
    std::sort(times.begin(), times.end());
    return times;
  }

  Communicator& group_;
  Communicator& host_;
  RankArrays& arrays_;
  const BenchCase& bench_;
  const SweepOptions& options_;
  CollectiveCall call_;
};

}  // namespace

void measure_sweep(Communicator& group, Communicator& host, RankArrays& arrays,
                   std::span<const BenchCase> cases, const SweepOptions& options,
                   const std::function<void(const BenchRow&)>& on_row) {
  for (size_t i = 0; i < cases.size(); ++i) {
    const BenchRow row = CaseMeasurement(group, host, arrays, cases[i], options).run(i);
    if (group.rank() == 0) on_row(row);
  }
}

}  // namespace tessera

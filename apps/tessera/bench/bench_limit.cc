#include "bench/bench_limit.h"

#include <emmintrin.h>
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "launch/cores.h"
#include "tensor/arena.h"

namespace tessera {
namespace {

constexpr int kPasses = 9;
constexpr int64_t kLineFloats = 16;
constexpr int64_t kSmallestProbe = int64_t{256} << 20;
constexpr int64_t kCachesPerProbe = 8;
constexpr int64_t kCachesPerWork = 4;

// One cache line, in the registers that every x86-64 has: memory is slower than any of them.
struct Line {
  __m128 part[4];
  explicit Line(const float* from) {
    for (int i = 0; i < 4; ++i) part[i] = _mm_load_ps(from + 4 * i);
  }
  void add(const float* from) {
    for (int i = 0; i < 4; ++i) part[i] = _mm_add_ps(part[i], _mm_load_ps(from + 4 * i));
  }
  void store(float* to) const {
    for (int i = 0; i < 4; ++i) _mm_store_ps(to + 4 * i, part[i]);
  }
  // Past the caches: a line that is overwritten as a whole need not be read first.
  void stream(float* to) const {
    for (int i = 0; i < 4; ++i) _mm_stream_ps(to + 4 * i, part[i]);
  }
};

void pass(std::span<float* const> sources, std::span<float* const> targets, bool in_place,
          int64_t count) {
  for (int64_t i = 0; i < count; i += kLineFloats) {
    Line line(sources[0] + i);
    for (const float* source : sources.subspan(1)) line.add(source + i);
    if (in_place) {
      for (float* target : targets) line.store(target + i);
    } else {
      for (float* target : targets) line.stream(target + i);
    }
  }
  _mm_sfence();
}

// Reads alone, in as many chains as an addition takes cycles. The sum is used, so that it is made.
float read_pass(std::span<float* const> sources, int64_t count) {
  constexpr int64_t kChains = 4;
  float sum = 0;
  for (const float* source : sources) {
    Line chains[kChains] = {Line(source), Line(source), Line(source), Line(source)};
    int64_t i = 0;
    for (; i + kChains * kLineFloats <= count; i += kChains * kLineFloats) {
      for (int64_t c = 0; c < kChains; ++c) chains[c].add(source + i + c * kLineFloats);
    }
    alignas(64) float values[kLineFloats];
    for (const Line& chain : chains) {
      chain.store(values);
      sum += values[0];
    }
  }
  return sum;
}

// The streams of one thread, each an arena of its own: those start at different places modulo 2^28,
// so that streams do not evict each other.
class Streams {
 public:
  explicit Streams(const MemoryProbe& probe) : in_place_(probe.in_place) {
    const int num_streams =
        probe.in_place ? std::max(probe.sources, probe.targets) : probe.sources + probe.targets;
    count_ = probe.bytes_per_thread / num_streams / 4 / kLineFloats * kLineFloats;
    for (int i = 0; i < num_streams; ++i) {
      arenas_.emplace_back("memory probe", count_ * 4);
      auto* stream = reinterpret_cast<float*>(arenas_.back().data());
      if (i < probe.sources) sources_.push_back(stream);
      if (probe.in_place ? i < probe.targets : i >= probe.sources) targets_.push_back(stream);
    }
  }

  // What was read counts for nothing, but must be a result.
  float run() const {
    if (targets_.empty()) return read_pass(sources_, count_);
    pass(sources_, targets_, in_place_, count_);
    return 0;
  }
  [[nodiscard]] double moved_bytes() const {
    return static_cast<double>(count_) * 4 * static_cast<double>(sources_.size() + targets_.size());
  }

 private:
  bool in_place_;
  int64_t count_ = 0;
  std::vector<HostArena> arenas_;
  std::vector<float*> sources_, targets_;
};

void run_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  (void)sched_setaffinity(0, sizeof(set), &set);  // unpinned is slower, not wrong
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

double memory_rate(const MemoryProbe& probe) {
  TESSERA_CHECK(probe.threads >= 1 && probe.sources >= 1 && probe.targets >= 0, "an empty probe");
  const std::vector<Core> cores = allowed_cores();
  const auto threads = static_cast<size_t>(probe.threads);
  std::vector<std::vector<double>> seconds(threads, std::vector<double>(kPasses));
  std::vector<double> moved(threads);
  std::vector<float> sums(threads);
  std::barrier<> start(probe.threads);
  std::vector<std::jthread> workers;
  for (size_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      if (threads <= cores.size()) run_on(cores[t].cpu);
      const Streams streams(probe);
      moved[t] = streams.moved_bytes();
      sums[t] += streams.run();
      for (double& time : seconds[t]) {
        start.arrive_and_wait();
        const double begin = seconds_now();
        sums[t] += streams.run();
        time = seconds_now() - begin;
      }
    });
  }
  workers.clear();  // joins
  std::vector<double> rates;
  for (size_t i = 0; i < kPasses; ++i) {
    double slowest = 0, bytes = 0;
    for (size_t t = 0; t < threads; ++t) {
      slowest = std::max(slowest, seconds[t][i]);
      bytes += moved[t];
    }
    rates.push_back(bytes / slowest);
  }
  std::nth_element(rates.begin(), rates.begin() + kPasses / 2, rates.end());
  return rates[kPasses / 2];
}

MemoryProbe probe_for(const MemoryWork& work, int ranks) {
  const auto cores = static_cast<int>(std::max<size_t>(allowed_cores().size(), 1));
  MemoryProbe probe;
  probe.sources = work.sources;
  probe.targets = work.targets;
  probe.in_place = work.in_place;
  probe.threads = std::min(ranks, cores);
  probe.bytes_per_thread =
      std::max(kSmallestProbe, kCachesPerProbe * largest_cache_bytes() / probe.threads);
  return probe;
}

int64_t largest_cache_bytes() {
  int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    int64_t size = 0;
    char unit = ' ';
    if (!(file >> size >> unit)) continue;
    if (unit == 'K') size *= 1024;
    if (unit == 'M') size *= 1024 * 1024;
    largest = std::max(largest, size);
  }
  return largest > 0 ? largest : int64_t{32} << 20;
}

bool is_memory_bound(const MemoryWork& work) {
  return work.touched_bytes() >= kCachesPerWork * largest_cache_bytes();
}

}  // namespace tessera

// How long work takes on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "tensor/cuda/check.h"

namespace tessera::kernels::cuda {

// Two moments of a stream.
class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    tessera::cuda::check(cudaEventCreate(&begin_), "making a stopwatch");
    tessera::cuda::check(cudaEventCreate(&end_), "making a stopwatch");
  }
  ~Stopwatch() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // The time of what `call` puts on the stream. Waits for the GPU.
  double ms(const std::function<void()>& call) {
    tessera::cuda::check(cudaEventRecord(begin_, stream_), "starting a stopwatch");
    call();
    tessera::cuda::check(cudaEventRecord(end_, stream_), "stopping a stopwatch");
    tessera::cuda::check(cudaEventSynchronize(end_), "waiting for a stopwatch");
    float ms = 0;
    tessera::cuda::check(cudaEventElapsedTime(&ms, begin_, end_), "reading a stopwatch");
    return ms;
  }
  // The shortest of several times, after one that loads the kernels, each after what `before` puts
  // on the stream.
  double shortest_ms(
      const std::function<void()>& call, const std::function<void()>& before = [] {}) {
    constexpr int kRounds = 5;
    call();
    double shortest = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kRounds; ++round) {
      before();
      shortest = std::min(shortest, ms(call));
    }
    return shortest;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace tessera::kernels::cuda

#include "runtime/cuda/marks.h"
#include "tensor/cuda/check.h"

namespace tessera {
namespace {

__global__ void mark_progress(volatile uint32_t* completed, uint32_t value) {
  *completed = value;
  __threadfence_system();
}

__global__ void touch_nowhere(const StepParams* params, int64_t step, volatile int* nowhere) {
  if (params->step == step) *nowhere = *nowhere + 1;
}

}  // namespace

void put_mark(cudaStream_t stream, uint32_t* completed, uint32_t value) {
  mark_progress<<<1, 1, 0, stream>>>(completed, value);
  cuda::check(cudaGetLastError(), "marking progress");
}

void put_fault(cudaStream_t stream, const StepParams* params, int64_t step) {
  constexpr uintptr_t kNowhere = 64;  // in the page that is never mapped
  touch_nowhere<<<1, 1, 0, stream>>>(params, step, reinterpret_cast<int*>(kNowhere));
  cuda::check(cudaGetLastError(), "provoking a fault");
}

}  // namespace tessera

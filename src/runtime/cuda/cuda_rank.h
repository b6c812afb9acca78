// The GPU of a rank and the Programs on it, in terms of CUDA.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <vector>

#include "kernels/cuda/gpu.h"
#include "runtime/gpu/gpu_program.h"
#include "runtime/gpu/gpu_rank.h"
#include "tensor/arena.h"

namespace tessera {

class CudaRank final : public GpuRank {
 public:
  explicit CudaRank(const GpuOptions& options);
  ~CudaRank() override;
  CudaRank(const CudaRank&) = delete;
  CudaRank& operator=(const CudaRank&) = delete;

  std::unique_ptr<GpuProgram> prepare(const Program& program) override;

  HostArena allocate(const std::string& name, int64_t size_bytes) override;
  HostArena allocate_pinned(const std::string& name, int64_t size_bytes) override;
  HostArena pin(HostArena memory) override;
  void wait() override;
  void make_current() override;
  kernels::cuda::Gpu* kernels() override { return &kernels_; }
  void* stream(StreamKind stream) const override { return cuda_stream(stream); }
  void copy_in(void* to, const void* pinned, int64_t size_bytes) override;
  void copy_out(void* pinned, const void* from, int64_t size_bytes) override;
  void tune_products(bool on) override;
  bool done(StreamKind stream) override;
  std::string trouble() override;
  void read(void* to, const void* from, int64_t size_bytes) override;
  void write(void* to, const void* from, int64_t size_bytes) override;

  [[nodiscard]] int device() const { return options_.device; }
  [[nodiscard]] const GpuOptions& options() const { return options_; }
  [[nodiscard]] cudaStream_t cuda_stream(StreamKind stream) const {
    return streams_[static_cast<size_t>(stream)];
  }

 private:
  GpuOptions options_;
  kernels::cuda::Gpu kernels_;
  std::array<cudaStream_t, kNumStreams> streams_{};
};

class CudaProgram final : public GpuProgram {
 public:
  CudaProgram(CudaRank& rank, const Program& program);
  ~CudaProgram() override;
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  const StepParams* params() const override;
  void begin_step(const StepParams& params) override;
  void wait(StreamKind stream, int event) override;
  void record(StreamKind stream, int event) override;
  void mark() override;
  void put_fault(int64_t step) override;
  void time_marks(bool on) override { timing_ = on; }
  double mark_seconds(size_t index) override;
  void begin_capture() override;
  int64_t end_capture() override;
  void abandon_capture() override;
  void launch_graph() override;
  std::string failure() override;
  int64_t completed() const override { return shared_->completed.load(); }
  int64_t marks_apart() const override { return apart_; }
  std::vector<std::string> notes() override;

 private:
  // In memory of the host that the GPU writes and reads.
  struct Shared {
    StepParams params;
    std::atomic<uint32_t> completed{0};
  };
  using WriteValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

  [[nodiscard]] cudaStream_t compute() const { return rank_.cuda_stream(StreamKind::kCompute); }
  [[nodiscard]] uint32_t marks_apart_outside() const { return mark_every_ == 0 ? 1 : mark_every_; }
  [[nodiscard]] uint32_t marks_apart_in_graph() const;
  void record_clock();
  void find_write_value();

  CudaRank& rank_;
  uint32_t mark_every_;
  bool may_use_cudnn_;
  HostArena shared_memory_;
  Shared* shared_;
  HostArena params_memory_;
  std::vector<cudaEvent_t> events_;
  std::vector<cudaEvent_t> clocks_;  // the begin of a step, then every mark
  bool timing_ = false;
  WriteValue write_value_ = nullptr;
  uint32_t marked_ = 0;  // instructions put on the stream in this step
  uint32_t apart_ = 1;   // marks
  bool capturing_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace tessera

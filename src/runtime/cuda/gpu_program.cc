#include "runtime/gpu/gpu_program.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/libraries/library.h"
#include "runtime/cuda/cuda_rank.h"
#include "runtime/cuda/marks.h"
#include "tensor/cuda/check.h"
#include "tensor/gpu_memory.h"

namespace tessera {

using cuda::check;

namespace {

// A mark takes about as long as a short kernel: in a graph, which is for steps of those, they are
// few.
constexpr uint32_t kMarksApartInGraph = 8;

bool attends_in_16_bits(const Program& program) {
  return std::any_of(program.instructions.begin(), program.instructions.end(), [&](const auto& i) {
    return i.op == OpKind::kAttention && size_bytes(program.buffer(i.inputs[0]).dtype) == 2;
  });
}

}  // namespace

CudaProgram::CudaProgram(CudaRank& rank, const Program& program)
    : rank_(rank),
      mark_every_(static_cast<uint32_t>(rank.options().mark_every)),
      may_use_cudnn_(attends_in_16_bits(program)),
      shared_memory_(cuda::allocate_pinned("numbers of a step", sizeof(Shared))),
      shared_(reinterpret_cast<Shared*>(shared_memory_.data())),
      params_memory_(cuda::allocate_on_gpu(rank.device(), "numbers of a step", sizeof(StepParams))),
      events_(static_cast<size_t>(program.num_events)) {
  for (cudaEvent_t& event : events_) {
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  }
  find_write_value();
}

CudaProgram::~CudaProgram() {
  if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
  for (const cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  for (const cudaEvent_t event : clocks_) (void)cudaEventDestroy(event);
}

const StepParams* CudaProgram::params() const {
  return reinterpret_cast<const StepParams*>(params_memory_.data());
}

void CudaProgram::begin_step(const StepParams& params) {
  shared_->params = params;
  shared_->completed.store(0);
  marked_ = 0;
  apart_ = marks_apart_outside();
  rank_.copy_in(params_memory_.data(), &shared_->params, sizeof(StepParams));
  record_clock();
}

void CudaProgram::wait(StreamKind stream, int event) {
  check(cudaStreamWaitEvent(rank_.cuda_stream(stream), events_[static_cast<size_t>(event)], 0),
        "waiting for an event");
}

void CudaProgram::record(StreamKind stream, int event) {
  check(cudaEventRecord(events_[static_cast<size_t>(event)], rank_.cuda_stream(stream)),
        "recording an event");
}

double CudaProgram::mark_seconds(size_t index) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, clocks_.at(index), clocks_.at(index + 1)),
        "timing an instruction");
  return static_cast<double>(milliseconds) * 1e-3;
}

void CudaProgram::mark() {
  ++marked_;
  record_clock();
  if (marked_ % apart_ != 0) return;
  auto* const completed = reinterpret_cast<uint32_t*>(&shared_->completed);
  if (capturing_ || write_value_ == nullptr) return put_mark(compute(), completed, marked_);
  const CUresult result = write_value_(compute(), reinterpret_cast<CUdeviceptr>(completed), marked_,
                                       CU_STREAM_WRITE_VALUE_DEFAULT);
  require(result == CUDA_SUCCESS, "marking progress on the GPU failed ({})",
          static_cast<int>(result));
}

void CudaProgram::put_fault(int64_t step) { tessera::put_fault(compute(), params(), step); }

void CudaProgram::begin_capture() {
  // Captures this thread alone: other ranks allocate and wait as they like.
  check(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal),
        "beginning to capture a step");
  capturing_ = true;
  apart_ = marks_apart_in_graph();
}

int64_t CudaProgram::end_capture() {
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(compute(), &graph), "capturing a step");
  size_t nodes = 0;
  cudaError_t status = cudaGraphGetNodes(graph, nullptr, &nodes);
  cudaGraphExec_t executable = nullptr;
  if (status == cudaSuccess) status = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  check(status, "making a graph of a step");
  if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
  graph_ = executable;
  return static_cast<int64_t>(nodes);
}

void CudaProgram::abandon_capture() {
  cudaGraph_t graph = nullptr;
  if (capturing_) (void)cudaStreamEndCapture(compute(), &graph);
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  capturing_ = false;
  marked_ = 0;
  apart_ = marks_apart_outside();
}

void CudaProgram::launch_graph() {
  apart_ = marks_apart_in_graph();
  check(cudaGraphLaunch(graph_, compute()), "launching the graph of a step");
}

std::string CudaProgram::failure() {
  if (capturing_) return "";  // asking would end the capture
  const cudaError_t status = cudaStreamQuery(compute());
  if (status == cudaSuccess || status == cudaErrorNotReady) return "";
  return fmt::format("the GPU failed: {} ({})", cudaGetErrorString(status),
                     cudaGetErrorName(status));
}

std::vector<std::string> CudaProgram::notes() {
  if (!may_use_cudnn_ || rank_.kernels()->attention() != nullptr) return {};
  std::string why = "it cannot be used";
  try {
    (void)kernels::cuda::load_cudnn();
  } catch (const Error& error) {
    why = error.what();
  }
  return {fmt::format("attention runs without cuDNN, on kernels of our own, more slowly: {}", why)};
}

uint32_t CudaProgram::marks_apart_in_graph() const {
  return mark_every_ == 0 ? kMarksApartInGraph : mark_every_;
}

void CudaProgram::record_clock() {
  if (!timing_) return;
  while (clocks_.size() <= marked_) {
    check(cudaEventCreate(&clocks_.emplace_back()), "making an event");
  }
  check(cudaEventRecord(clocks_[marked_], compute()), "recording an event");
}

void CudaProgram::find_write_value() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t status = cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &function,
                                                              12000, cudaEnableDefault, &found);
  if (status == cudaSuccess && found == cudaDriverEntryPointSuccess) {
    write_value_ = reinterpret_cast<WriteValue>(function);
  }
  (void)cudaGetLastError();
}

}  // namespace tessera

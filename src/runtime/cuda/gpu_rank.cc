#include "runtime/gpu_rank.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/libraries/library.h"
#include "kernels/cuda/libraries/matmul.h"
#include "runtime/cuda/marks.h"
#include "tensor/cuda/check.h"
#include "tensor/gpu_memory.h"

namespace tessera {
namespace {

using cuda::check;

// A mark takes about as long as a short kernel: in a graph, which is for steps of those, they are
// few.
constexpr uint32_t kMarksApartInGraph = 8;

// In memory of the host that the GPU writes and reads.
struct Shared {
  StepParams params;
  std::atomic<uint32_t> completed{0};
};

// TESSERA_CACHE, else the user's cache folder; the working folder where there is none.
std::string choices_file() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::filesystem::path folder = variable("TESSERA_CACHE");
  if (folder.empty() && !variable("XDG_CACHE_HOME").empty()) {
    folder = std::filesystem::path(variable("XDG_CACHE_HOME")) / "tessera";
  }
  if (folder.empty() && !variable("HOME").empty()) {
    folder = std::filesystem::path(variable("HOME")) / ".cache" / "tessera";
  }
  std::error_code ignored;  // a cache that cannot be kept is measured again
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  return folder / "products.txt";
}

bool attends_in_16_bits(const Program& program) {
  return std::any_of(program.instructions.begin(), program.instructions.end(), [&](const auto& i) {
    return i.op == OpKind::kAttention && size_bytes(program.buffer(i.inputs[0]).dtype) == 2;
  });
}

class CudaRank final : public GpuRank {
 public:
  CudaRank(const GpuOptions& options, const Program& program)
      : device_(options.device),
        kernels_({options.device, options.deterministic}),
        mark_every_(static_cast<uint32_t>(options.mark_every)),
        may_use_cudnn_(attends_in_16_bits(program)),
        shared_memory_(cuda::allocate_pinned("numbers of a step", sizeof(Shared))),
        shared_(reinterpret_cast<Shared*>(shared_memory_.data())),
        params_memory_(cuda::allocate_on_gpu(device_, "numbers of a step", sizeof(StepParams))),
        events_(static_cast<size_t>(program.num_events)) {
    streams_.fill(nullptr);
    for (const StreamKind stream : kCommunicationStreams) {
      check(
          cudaStreamCreateWithFlags(&streams_[static_cast<size_t>(stream)], cudaStreamNonBlocking),
          "making a stream");
    }
    streams_[static_cast<size_t>(StreamKind::kCompute)] = kernels_.stream();
    for (cudaEvent_t& event : events_) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
    }
    find_write_value();
  }

  ~CudaRank() override {
    if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
    for (const StreamKind stream : kCommunicationStreams) {
      (void)cudaStreamDestroy(cuda_stream(stream));
    }
    for (const cudaEvent_t event : events_) (void)cudaEventDestroy(event);
    for (const cudaEvent_t event : clocks_) (void)cudaEventDestroy(event);
  }

  HostArena allocate(const std::string& name, int64_t size_bytes) override {
    return cuda::allocate_on_gpu(device_, name, size_bytes);
  }
  void make_current() override { check(cudaSetDevice(device_), "choosing the GPU"); }
  kernels::cuda::Gpu* kernels() override { return &kernels_; }
  const StepParams* params() const override {
    return reinterpret_cast<const StepParams*>(params_memory_.data());
  }
  void* stream(StreamKind stream) const override { return cuda_stream(stream); }

  void begin_step(const StepParams& params) override {
    shared_->params = params;
    shared_->completed.store(0);
    marked_ = 0;
    apart_ = marks_apart_outside();
    copy_in(params_memory_.data(), &shared_->params, sizeof(StepParams));
    record_clock();
  }
  void copy_in(void* to, const void* pinned, int64_t size_bytes) override {
    check(cudaMemcpyAsync(to, pinned, static_cast<size_t>(size_bytes), cudaMemcpyHostToDevice,
                          compute()),
          "copying to the GPU");
  }
  void copy_out(void* pinned, const void* from, int64_t size_bytes) override {
    check(cudaMemcpyAsync(pinned, from, static_cast<size_t>(size_bytes), cudaMemcpyDeviceToHost,
                          compute()),
          "copying from the GPU");
  }

  void wait(StreamKind stream, int event) override {
    check(cudaStreamWaitEvent(cuda_stream(stream), events_[static_cast<size_t>(event)], 0),
          "waiting for an event");
  }
  void record(StreamKind stream, int event) override {
    check(cudaEventRecord(events_[static_cast<size_t>(event)], cuda_stream(stream)),
          "recording an event");
  }

  void time_marks(bool on) override { timing_ = on; }
  double mark_seconds(size_t index) override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, clocks_.at(index), clocks_.at(index + 1)),
          "timing an instruction");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  void mark() override {
    ++marked_;
    record_clock();
    if (marked_ % apart_ != 0) return;
    auto* const completed = reinterpret_cast<uint32_t*>(&shared_->completed);
    if (capturing_ || write_value_ == nullptr) return put_mark(compute(), completed, marked_);
    const CUresult result = write_value_(compute(), reinterpret_cast<CUdeviceptr>(completed),
                                         marked_, CU_STREAM_WRITE_VALUE_DEFAULT);
    require(result == CUDA_SUCCESS, "marking progress on the GPU failed ({})",
            static_cast<int>(result));
  }
  void put_fault(int64_t step) override { tessera::put_fault(compute(), params(), step); }

  void begin_capture() override {
    // Of this thread alone: other ranks allocate and wait as they like.
    check(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal),
          "beginning to capture a step");
    capturing_ = true;
    apart_ = marks_apart_in_graph();
  }
  int64_t end_capture() override {
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
  void abandon_capture() override {
    cudaGraph_t graph = nullptr;
    if (capturing_) (void)cudaStreamEndCapture(compute(), &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    capturing_ = false;
    marked_ = 0;
    apart_ = marks_apart_outside();
  }
  void launch_graph() override {
    apart_ = marks_apart_in_graph();
    check(cudaGraphLaunch(graph_, compute()), "launching the graph of a step");
  }

  void tune_products(bool on) override {
    kernels::cuda::Matmul& matmul = kernels_.matmul();
    if (on) matmul.keep_choices_in(choices_file());
    matmul.tune_at_first_use(on);
    if (auto* const attention = kernels_.attention(); attention != nullptr) {
      attention->tune_at_first_use(on);
    }
  }

  bool done(StreamKind stream) override {
    const cudaError_t status = cudaStreamQuery(cuda_stream(stream));
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    check(status, "the GPU failed");
    return true;
  }
  std::string failure() override {
    if (capturing_) return "";  // asking would end the capture
    const cudaError_t status = cudaStreamQuery(compute());
    if (status == cudaSuccess || status == cudaErrorNotReady) return "";
    return fmt::format("the GPU failed: {} ({})", cudaGetErrorString(status),
                       cudaGetErrorName(status));
  }
  int64_t completed() const override { return shared_->completed.load(); }
  int64_t marks_apart() const override { return apart_; }

  std::string trouble() override {
    const kernels::cuda::Trouble found = *kernels_.trouble();
    *kernels_.trouble() = {};
    switch (found.code) {
      case kernels::cuda::Trouble::kNone:
        return "";
      case kernels::cuda::Trouble::kBlockOverflow:
        return fmt::format(
            "the router chose the experts of peer {} for {} rows, but parallel.moe_capacity leaves "
            "room for {}; use a larger moe_capacity, or 0 for the worst case",
            found.detail[0], found.detail[1], found.detail[2]);
    }
    return fmt::format("trouble {} on the GPU", found.code);
  }

  std::vector<std::string> notes() override {
    if (!may_use_cudnn_ || kernels_.attention() != nullptr) return {};
    std::string why = "it cannot be used";
    try {
      (void)kernels::cuda::load_cudnn();
    } catch (const Error& error) {
      why = error.what();
    }
    return {
        fmt::format("attention runs without cuDNN, on kernels of our own, more slowly: {}", why)};
  }

  void read(void* to, const void* from, int64_t size_bytes) override {
    make_current();
    cuda::copy_from_gpu(to, from, size_bytes);
  }
  void write(void* to, const void* from, int64_t size_bytes) override {
    make_current();
    cuda::copy_to_gpu(to, from, size_bytes);
  }

 private:
  [[nodiscard]] cudaStream_t cuda_stream(StreamKind stream) const {
    return streams_[static_cast<size_t>(stream)];
  }
  [[nodiscard]] cudaStream_t compute() const { return cuda_stream(StreamKind::kCompute); }

  [[nodiscard]] uint32_t marks_apart_outside() const { return mark_every_ == 0 ? 1 : mark_every_; }
  [[nodiscard]] uint32_t marks_apart_in_graph() const {
    return mark_every_ == 0 ? kMarksApartInGraph : mark_every_;
  }

  void record_clock() {
    if (!timing_) return;
    while (clocks_.size() <= marked_) {
      check(cudaEventCreate(&clocks_.emplace_back()), "making an event");
    }
    check(cudaEventRecord(clocks_[marked_], compute()), "recording an event");
  }

  void find_write_value() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &function,
                                                                12000, cudaEnableDefault, &found);
    if (status == cudaSuccess && found == cudaDriverEntryPointSuccess) {
      write_value_ = reinterpret_cast<WriteValue>(function);
    }
    (void)cudaGetLastError();
  }

  using WriteValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

  int device_;
  kernels::cuda::Gpu kernels_;
  uint32_t mark_every_;
  bool may_use_cudnn_;
  HostArena shared_memory_;
  Shared* shared_;
  HostArena params_memory_;
  std::array<cudaStream_t, kNumStreams> streams_{};
  std::vector<cudaEvent_t> events_;
  std::vector<cudaEvent_t> clocks_;  // the begin of a step, then every mark
  bool timing_ = false;
  WriteValue write_value_ = nullptr;
  uint32_t marked_ = 0;  // instructions put on the stream in this step
  uint32_t apart_ = 1;   // marks
  bool capturing_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

std::unique_ptr<GpuRank> GpuRank::open(const GpuOptions& options, const Program& program) {
  const cuda::GpuInfo info = cuda::gpu_info(options.device);
  require(info.why_not.empty(), "train.device = \"cuda\": {}; use device = \"cpu\"", info.why_not);
  (void)kernels::cuda::load_cublaslt();  // no step can do without: said before anything is taken
  return std::make_unique<CudaRank>(options, program);
}

}  // namespace tessera

#include "comm/nccl/nccl_world.h"

#include <utility>

#include "comm/nccl/nccl_communicator.h"
#include "comm/nccl/rank_world.h"

namespace tessera {
namespace nccl {
namespace {

class GpuMemory final : public DeviceMemory {
 public:
  GpuMemory(std::shared_ptr<Gpu> gpu, const std::string& name, int64_t size_bytes)
      : gpu_(std::move(gpu)), size_bytes_(size_bytes) {
    require(size_bytes >= 0, "{}: {} bytes of GPU memory", name, size_bytes);
    gpu_->make_current();
    const std::string what = fmt::format("{}: allocating {} bytes", name, size_bytes);
    const auto bytes = static_cast<size_t>(size_bytes);
    gpu_->check(gpu_->library->cudaMalloc(&data_, bytes), what.c_str());
    gpu_->check(gpu_->library->cudaMemset(data_, 0, bytes), what.c_str());
    gpu_->check(gpu_->library->cudaStreamSynchronize(nullptr), what.c_str());
  }
  // A kernel that could not be stopped may still use it, and freeing would wait for that one.
  ~GpuMemory() override {
    if (!gpu_->stuck) (void)gpu_->library->cudaFree(data_);
  }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  [[nodiscard]] void* data() const override { return data_; }
  [[nodiscard]] int64_t size_bytes() const override { return size_bytes_; }
  void upload(const void* from, int64_t size_bytes) override {
    copy(data_, from, size_bytes, cudaMemcpyHostToDevice);
  }
  void download(void* to, int64_t size_bytes) const override {
    copy(to, data_, size_bytes, cudaMemcpyDeviceToHost);
  }

 private:
  void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) const {
    require(bytes >= 0 && bytes <= size_bytes_, "copying {} bytes of a GPU buffer of {}", bytes,
            size_bytes_);
    gpu_->make_current();
    gpu_->check(gpu_->library->cudaMemcpy(to, from, static_cast<size_t>(bytes), kind), "copying");
    // The copy from pageable memory may return while its last part is still on the way.
    gpu_->check(gpu_->library->cudaStreamSynchronize(nullptr), "copying");
  }

  std::shared_ptr<Gpu> gpu_;
  void* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

class RankWorld final : public NcclWorld {
 public:
  RankWorld(const NcclWorldOptions& options, std::shared_ptr<const GpuLibrary> library)
      : state_(options, std::make_shared<Gpu>(std::move(library), options.device)) {
    options.validate();
    state_.gpu->make_current();
  }

  [[nodiscard]] int rank() const override { return host().rank(); }
  [[nodiscard]] int size() const override { return host().size(); }
  [[nodiscard]] std::string backend() const override { return "nccl"; }

  std::unique_ptr<Communicator> join(const std::string& name,
                                     std::span<const int> members) override {
    return std::make_unique<NcclCommunicator>(state_, name, host().join(name + "/nccl", members),
                                              host().join(name + "/nccl-replies", members));
  }
  HostArena allocate(const std::string& name, int64_t) override {
    throw Error(fmt::format("{}: NCCL exchanges GPU memory: use allocate_device", name));
  }
  std::unique_ptr<DeviceMemory> allocate_device(const std::string& name,
                                                int64_t size_bytes) override {
    return std::make_unique<GpuMemory>(state_.gpu, name, size_bytes);
  }

  [[nodiscard]] WorkNote* work_note(int stream) override { return host().work_note(stream); }
  void abort(const std::string& reason) override { host().abort(reason); }
  [[nodiscard]] const AbortFlag& abort_flag() const override { return host().abort_flag(); }
  [[nodiscard]] std::string abort_reason() const override { return host().abort_reason(); }
  [[nodiscard]] bool stop_requested() const override { return host().stop_requested(); }

 private:
  [[nodiscard]] CommWorld& host() const { return state_.options.host; }

  RankState state_;
};

}  // namespace

std::unique_ptr<NcclWorld> make_world(const NcclWorldOptions& options,
                                      std::shared_ptr<const GpuLibrary> library) {
  return std::make_unique<RankWorld>(options, std::move(library));
}

}  // namespace nccl

void NcclWorldOptions::validate() const {
  require(device >= 0, "GPU {}: numbers begin with 0", device);
  require(check_every >= 0, "check_every is {}: it must not be negative", check_every);
  require(abort_patience.count() > 0, "abort_patience is {} ms: it must be positive",
          abort_patience.count());
}

std::string nccl_obstacle() {
  try {
    const std::shared_ptr<const nccl::GpuLibrary> library = nccl::load_gpu_library();
    int devices = 0;
    const cudaError_t status = library->cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0) return "";
    return fmt::format("there is no GPU (CUDA says: {})", library->cudaGetErrorString(status));
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<NcclWorld> make_nccl_world(const NcclWorldOptions& options) {
  const std::string obstacle = nccl_obstacle();
  require(obstacle.empty(), "no NCCL world: {}", obstacle);
  return nccl::make_world(options, nccl::load_gpu_library());
}

}  // namespace tessera

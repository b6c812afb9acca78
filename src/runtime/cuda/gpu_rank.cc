#include "runtime/gpu/gpu_rank.h"

#include <filesystem>

#include "base/error.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "kernels/cuda/libraries/library.h"
#include "kernels/cuda/libraries/matmul.h"
#include "runtime/cuda/cuda_rank.h"
#include "tensor/cuda/check.h"
#include "tensor/gpu_memory.h"
#include "tensor/machine_folders.h"

namespace tessera {

using cuda::check;

namespace {

std::string choices_file() {
  const std::filesystem::path folder = machine_folders().cache;
  std::error_code ignored;  // a cache that cannot be kept is measured again
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  return folder / "products.txt";
}

}  // namespace

CudaRank::CudaRank(const GpuOptions& options)
    : options_(options), kernels_({options.device, options.deterministic}) {
  streams_.fill(nullptr);
  for (const StreamKind stream : kCommunicationStreams) {
    check(cudaStreamCreateWithFlags(&streams_[static_cast<size_t>(stream)], cudaStreamNonBlocking),
          "making a stream");
  }
  streams_[static_cast<size_t>(StreamKind::kCompute)] = kernels_.stream();
}

CudaRank::~CudaRank() {
  for (const StreamKind stream : kCommunicationStreams) {
    (void)cudaStreamDestroy(cuda_stream(stream));
  }
}

std::unique_ptr<GpuProgram> CudaRank::prepare(const Program& program) {
  return std::make_unique<CudaProgram>(*this, program);
}

HostArena CudaRank::allocate(const std::string& name, int64_t size_bytes) {
  return cuda::allocate_on_gpu(device(), name, size_bytes);
}

HostArena CudaRank::allocate_pinned(const std::string& name, int64_t size_bytes) {
  make_current();
  return cuda::allocate_pinned(name, size_bytes);
}

HostArena CudaRank::pin(HostArena memory) {
  make_current();
  return cuda::pin_on_host(std::move(memory));
}

void CudaRank::wait() { check(cudaDeviceSynchronize(), "waiting for the GPU"); }

void CudaRank::make_current() { check(cudaSetDevice(device()), "choosing the GPU"); }

void CudaRank::copy_in(void* to, const void* pinned, int64_t size_bytes) {
  check(cudaMemcpyAsync(to, pinned, static_cast<size_t>(size_bytes), cudaMemcpyHostToDevice,
                        cuda_stream(StreamKind::kCompute)),
        "copying to the GPU");
}

void CudaRank::copy_out(void* pinned, const void* from, int64_t size_bytes) {
  check(cudaMemcpyAsync(pinned, from, static_cast<size_t>(size_bytes), cudaMemcpyDeviceToHost,
                        cuda_stream(StreamKind::kCompute)),
        "copying from the GPU");
}

void CudaRank::tune_products(bool on) {
  kernels::cuda::Matmul& matmul = kernels_.matmul();
  if (on) matmul.keep_choices_in(choices_file());
  matmul.tune_at_first_use(on);
  if (auto* const attention = kernels_.attention(); attention != nullptr) {
    attention->tune_at_first_use(on);
  }
}

bool CudaRank::done(StreamKind stream) {
  const cudaError_t status = cudaStreamQuery(cuda_stream(stream));
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(status, "the GPU failed");
  return true;
}

std::string CudaRank::trouble() {
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

void CudaRank::read(void* to, const void* from, int64_t size_bytes) {
  make_current();
  cuda::copy_from_gpu(to, from, size_bytes);
}

void CudaRank::write(void* to, const void* from, int64_t size_bytes) {
  make_current();
  cuda::copy_to_gpu(to, from, size_bytes);
}

std::unique_ptr<GpuRank> GpuRank::open(const GpuOptions& options) {
  const cuda::GpuInfo info = cuda::gpu_info(options.device);
  require(info.why_not.empty(), "train.device = \"cuda\": {}; use device = \"cpu\"", info.why_not);
  (void)kernels::cuda::load_cublaslt();  // no step can do without: said before anything is taken
  return std::make_unique<CudaRank>(options);
}

}  // namespace tessera

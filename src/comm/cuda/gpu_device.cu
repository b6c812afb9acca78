// Ranks of one process that share a GPU: collectives are copies and kernels on a stream of each
// communicator, between buffers that every rank's kernels reach.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <type_traits>

#include "base/error.h"
#include "comm/device.h"
#include "tensor/cuda/check.h"
#include "tensor/gpu_memory.h"

namespace tessera {
namespace {

using cuda::check;

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;
constexpr int kPackBytes = 16;
constexpr size_t kMostOperands = 64;  // ranks of one process

// ---- arithmetic ----  As in comm/reduce.cc.
template <typename T>
struct Arithmetic {
  using Scalar = T;
  __device__ static Scalar widen(T x) { return x; }
  __device__ static T narrow(Scalar x) { return x; }
};
template <>
struct Arithmetic<__nv_bfloat16> {
  using Scalar = float;
  __device__ static float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
  __device__ static __nv_bfloat16 narrow(float x) { return __float2bfloat16_rn(x); }
};
template <>
struct Arithmetic<__half> {
  using Scalar = float;
  __device__ static float widen(__half x) { return __half2float(x); }
  __device__ static __half narrow(float x) { return __float2half_rn(x); }
};

// The first of two equal ones stays, and a NaN on either side.
struct Sum {
  template <typename V>
  __device__ static V of(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct Max {
  template <typename V>
  __device__ static V of(V a, V b) {
    return a >= b || a != a ? a : b;
  }
};
struct Min {
  template <typename V>
  __device__ static V of(V a, V b) {
    return a <= b || a != a ? a : b;
  }
};

// ---- kernels ----
template <typename T, int kLanes>
struct alignas(sizeof(T) * kLanes) Pack {
  T at[kLanes];
};

struct Operands {
  const void* sources[kMostOperands];
  void* targets[kMostOperands];
  int num_sources;
  int num_targets;
  int mean_over;  // 0 or 1: a sum stays one
};

// Pack i of all sources, in order of the sources, into all targets: a target may be a source,
// because all of them are read before one is written.
template <typename T, typename Op, int kLanes>
__device__ void reduce_pack(const Operands& operands, int64_t i) {
  using A = Arithmetic<T>;
  using Packed = Pack<T, kLanes>;
  typename A::Scalar result[kLanes];
  const Packed first = static_cast<const Packed*>(operands.sources[0])[i];
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = A::widen(first.at[lane]);
#pragma unroll 4
  for (int s = 1; s < operands.num_sources; ++s) {
    const Packed term = static_cast<const Packed*>(operands.sources[s])[i];
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      result[lane] = Op::of(result[lane], A::widen(term.at[lane]));
    }
  }
  if constexpr (std::is_floating_point_v<typename A::Scalar>) {
    if (operands.mean_over > 1) {
      const auto divisor = static_cast<typename A::Scalar>(operands.mean_over);
#pragma unroll
      for (int lane = 0; lane < kLanes; ++lane) result[lane] /= divisor;
    }
  }
  Packed packed;
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) packed.at[lane] = A::narrow(result[lane]);
  for (int t = 0; t < operands.num_targets; ++t) {
    static_cast<Packed*>(operands.targets[t])[i] = packed;
  }
}

// Whole packs first, then the elements that do not fill one.
template <typename T, typename Op, int kLanes>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(const __grid_constant__ Operands operands, int64_t count) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t packs = count / kLanes;
  for (int64_t i = thread; i < packs; i += stride) reduce_pack<T, Op, kLanes>(operands, i);
  for (int64_t i = packs * kLanes + thread; i < count; i += stride) {
    reduce_pack<T, Op, 1>(operands, i);
  }
}

struct Exchange {
  const void* mine;
  void* to_them;
  const void* theirs;
  void* to_me;
};

template <typename Word>
__device__ void exchange_word(const Exchange& of, int64_t i) {
  const Word mine = static_cast<const Word*>(of.mine)[i];
  const Word theirs = static_cast<const Word*>(of.theirs)[i];
  static_cast<Word*>(of.to_them)[i] = mine;
  static_cast<Word*>(of.to_me)[i] = theirs;
}

template <typename Word>
__global__ void __launch_bounds__(kThreads) exchange_kernel(Exchange of, int64_t size_bytes) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t words = size_bytes / static_cast<int64_t>(sizeof(Word));
  for (int64_t i = thread; i < words; i += stride) exchange_word<Word>(of, i);
  for (int64_t i = words * static_cast<int64_t>(sizeof(Word)) + thread; i < size_bytes;
       i += stride) {
    exchange_word<uint8_t>(of, i);
  }
}

bool fits_packs(const void* data) { return reinterpret_cast<uintptr_t>(data) % kPackBytes == 0; }

// ---- waiting ----
using Clock = std::chrono::steady_clock;

// Most of what is moved takes some microseconds; a thread that waits longer leaves the core, and
// the lock that every question to the GPU takes, to others.
void pause(Clock::duration waited) {
  if (waited < std::chrono::milliseconds(1)) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

constexpr std::chrono::milliseconds kMomentAfterAbort{1000};

class GpuMover final : public DeviceMover {
 public:
  explicit GpuMover(int gpu, int multiprocessors)
      : gpu_(gpu), most_blocks_(kBlocksPerMultiprocessor * multiprocessors) {
    make_current();
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    // Peers wait for what moves, computing does not.
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
          "making a stream for collectives");
  }
  ~GpuMover() override { (void)cudaStreamDestroy(stream_); }
  GpuMover(const GpuMover&) = delete;
  GpuMover& operator=(const GpuMover&) = delete;

  void copy(void* to, const void* from, int64_t size_bytes) override {
    if (size_bytes == 0) return;
    make_current();
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(size_bytes), cudaMemcpyDeviceToDevice,
                          stream_),
          "copying on the GPU");
    in_line_ = true;
  }

  void exchange(const void* mine, void* to_them, const void* theirs, void* to_me,
                int64_t size_bytes) override {
    if (size_bytes == 0) return;
    make_current();
    const Exchange of{mine, to_them, theirs, to_me};
    if (fits_packs(mine) && fits_packs(to_them) && fits_packs(theirs) && fits_packs(to_me)) {
      exchange_kernel<uint4>
          <<<blocks_for(size_bytes / kPackBytes), kThreads, 0, stream_>>>(of, size_bytes);
    } else {
      exchange_kernel<uint8_t><<<blocks_for(size_bytes), kThreads, 0, stream_>>>(of, size_bytes);
    }
    launched();
  }

  void reduce(ReduceOp op, DType dtype, std::span<const void* const> sources,
              std::span<void* const> targets, int64_t count, int mean_over) override {
    if (count == 0) return;
    TESSERA_CHECK(!along_tree(op), "a tree of sums on a GPU");
    if (op != ReduceOp::kMean) mean_over = 0;
    if (sources.size() == 1 && mean_over <= 1) {
      for (void* target : targets) {
        if (target != sources[0]) copy(target, sources[0], count * size_bytes(dtype));
      }
      return;
    }
    TESSERA_CHECK(sources.size() <= kMostOperands && targets.size() <= kMostOperands,
                  "{} sources and {} targets", sources.size(), targets.size());
    make_current();
    Operands operands{};
    std::copy(sources.begin(), sources.end(), operands.sources);
    std::copy(targets.begin(), targets.end(), operands.targets);
    operands.num_sources = static_cast<int>(sources.size());
    operands.num_targets = static_cast<int>(targets.size());
    operands.mean_over = mean_over;
    reduce_by_type(op, dtype, operands, count);
  }

  void finish(const AbortFlag& abort, std::chrono::milliseconds timeout) override {
    if (!in_line_) return;
    make_current();
    const Clock::time_point begin = Clock::now();
    Clock::time_point deadline = begin + timeout;
    bool aborted = false;
    cudaError_t status = cudaSuccess;
    while ((status = cudaStreamQuery(stream_)) == cudaErrorNotReady) {
      const Clock::time_point now = Clock::now();
      if (!aborted && abort.raised()) {
        aborted = true;
        deadline = std::min(deadline, now + kMomentAfterAbort);
      }
      if (now > deadline) break;
      pause(now - begin);
    }
    (void)cudaGetLastError();  // "not ready" would be the next error that somebody asks for
    if (status == cudaErrorNotReady) throw_late(begin);
    in_line_ = false;
    check(status, "moving data on the GPU");
  }

 private:
  void make_current() const { check(cudaSetDevice(gpu_), "choosing the GPU"); }

  [[nodiscard]] unsigned blocks_for(int64_t items) const {
    const int64_t blocks = (items + kThreads - 1) / kThreads;
    return static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, most_blocks_));
  }

  void launched() {
    check(cudaGetLastError(), "starting a kernel of collectives");
    in_line_ = true;
  }

  template <typename T, typename Op>
  void reduce_typed(const Operands& operands, int64_t count) {
    constexpr int kLanes = kPackBytes / sizeof(T);
    const bool packed = std::all_of(operands.sources, operands.sources + operands.num_sources,
                                    [](const void* data) { return fits_packs(data); }) &&
                        std::all_of(operands.targets, operands.targets + operands.num_targets,
                                    [](const void* data) { return fits_packs(data); });
    if (packed) {
      reduce_kernel<T, Op, kLanes>
          <<<blocks_for(count / kLanes), kThreads, 0, stream_>>>(operands, count);
    } else {
      reduce_kernel<T, Op, 1><<<blocks_for(count), kThreads, 0, stream_>>>(operands, count);
    }
    launched();
  }

  // Integers add without sign, so that they wrap, and compare with it.
  template <typename T>
  void reduce_by_op(ReduceOp op, const Operands& operands, int64_t count) {
    if (op == ReduceOp::kMax) return reduce_typed<T, Max>(operands, count);
    if (op == ReduceOp::kMin) return reduce_typed<T, Min>(operands, count);
    if constexpr (std::is_integral_v<T>) {
      TESSERA_CHECK(operands.mean_over <= 1, "mean of integers");
      reduce_typed<std::make_unsigned_t<T>, Sum>(operands, count);
    } else {
      reduce_typed<T, Sum>(operands, count);
    }
  }

  void reduce_by_type(ReduceOp op, DType dtype, const Operands& operands, int64_t count) {
    switch (dtype) {
      case DType::kF64:
        return reduce_by_op<double>(op, operands, count);
      case DType::kF32:
        return reduce_by_op<float>(op, operands, count);
      case DType::kBF16:
        return reduce_by_op<__nv_bfloat16>(op, operands, count);
      case DType::kF16:
        return reduce_by_op<__half>(op, operands, count);
      case DType::kI32:
        return reduce_by_op<int32_t>(op, operands, count);
      case DType::kI64:
        return reduce_by_op<int64_t>(op, operands, count);
      case DType::kU8:
        return reduce_by_op<uint8_t>(op, operands, count);
    }
  }

  [[noreturn]] void throw_late(Clock::time_point begin) const {
    const std::chrono::duration<double> waited = Clock::now() - begin;
    throw Error(fmt::format("GPU {} has not moved the data in {:.3f} s", gpu_, waited.count()));
  }

  int gpu_;
  int64_t most_blocks_;
  cudaStream_t stream_ = nullptr;
  bool in_line_ = false;
};

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(int gpu) : gpu_(gpu) {
    const cuda::GpuInfo info = cuda::gpu_info(gpu);
    require(info.why_not.empty(), "no ranks on GPU {}: {}; use train.device = \"cpu\"", gpu,
            info.why_not);
    multiprocessors_ = info.multiprocessors;
  }

  [[nodiscard]] std::string name() const override { return fmt::format("GPU {}", gpu_); }

  [[nodiscard]] bool reaches(const void* data) override {
    check(cudaSetDevice(gpu_), "choosing the GPU");
    cudaPointerAttributes attributes{};
    check(cudaPointerGetAttributes(&attributes, data), "looking at a buffer");
    const bool on_gpu =
        attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    require(!on_gpu || attributes.device == gpu_,
            "a buffer is memory of GPU {}, the ranks of this world share GPU {}", attributes.device,
            gpu_);
    return on_gpu;
  }

  HostArena allocate(const std::string& name, int64_t size_bytes) override {
    return cuda::allocate_on_gpu(gpu_, name, size_bytes);
  }

  std::unique_ptr<DeviceMover> make_mover() override {
    return std::make_unique<GpuMover>(gpu_, multiprocessors_);
  }

 private:
  int gpu_;
  int multiprocessors_ = 0;
};

}  // namespace

std::unique_ptr<Device> make_gpu_device(int gpu) { return std::make_unique<GpuDevice>(gpu); }

}  // namespace tessera

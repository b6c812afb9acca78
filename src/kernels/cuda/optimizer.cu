// The optimizer and the numbers that a step reports.
#include <limits>
#include <span>

#include "base/cuda_workspace.h"
#include "base/master_weight.h"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/packs.cuh"
#include "kernels/scratch.h"
#include "kernels/update_rules.h"

namespace tessera::kernels::cuda {
namespace {

// ---- several tensors in one launch ----
// Tensors are cut into chunks of equal size, those of the first before those of the second. The
// table of tensors is a parameter of the kernel.
template <typename Entry>
struct Table {
  Entry entries[kMostGroupedBuckets];
  int used = 0;
  int num_chunks = 0;

  // Tensors without elements have no place in it.
  void add(const Entry& entry, int64_t chunk_size) {
    const int64_t chunks = num_chunks + ceil_div(entry.count, chunk_size);
    TESSERA_CHECK(chunks <= std::numeric_limits<int>::max(), "optimizer: {} chunks", chunks);
    if (entry.count == 0) return;
    entries[used] = entry;
    entries[used++].first_chunk = num_chunks;
    num_chunks = static_cast<int>(chunks);
  }
};

// The last entry that begins with `chunk` or before it.
template <typename Entry>
__device__ int entry_of(const Table<Entry>& table, int chunk) {
  int low = 0, high = table.used - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.entries[middle].first_chunk <= chunk) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// ---- sum of squares ----
constexpr int kSquareThreads = 256;
constexpr int kInFlight = 4;  // packs that a thread asks for before it uses the first

template <typename T>
struct SquaresEntry {
  const T* x;
  int64_t count;
  double* metric;
  int first_chunk;
  bool packed;  // x can be read in packs
};

template <typename T, int W>
__device__ double squares_of(Pack<T, W> x) {
  double sum = 0;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const auto value = static_cast<double>(widen(x.at[i]));
    sum += value * value;
  }
  return sum;
}

// This thread's part.
template <int W, typename T>
__device__ double squares_of_chunk(const T* x, int count) {
  const auto* packs = reinterpret_cast<const Pack<T, W>*>(x);
  const int num_packs = count / W;
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  int p = thread;
  for (; p + (kInFlight - 1) * kSquareThreads < num_packs; p += kInFlight * kSquareThreads) {
    Pack<T, W> in[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) in[i] = packs[p + i * kSquareThreads];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) sum += squares_of(in[i]);
  }
  for (; p < num_packs; p += kSquareThreads) sum += squares_of(packs[p]);
  const int rest = num_packs * W + thread;
  if (rest < count) sum += squares_of(Pack<T, 1>{{x[rest]}});
  return sum;
}

// A block per chunk: the order of a tensor's sum depends on its number of elements only.
template <typename T>
__global__ void __launch_bounds__(kSquareThreads)
    squares_kernel(const __grid_constant__ Table<SquaresEntry<T>> table, double* sums) {
  constexpr int64_t kChunk = workspace::cuda::kSquaresChunk;
  const int chunk = static_cast<int>(blockIdx.x);
  const SquaresEntry<T>& entry = table.entries[entry_of(table, chunk)];
  const int64_t begin = (chunk - entry.first_chunk) * kChunk;
  const int count = static_cast<int>(min(kChunk, entry.count - begin));
  const double mine = entry.packed ? squares_of_chunk<kPack<T>>(entry.x + begin, count)
                                   : squares_of_chunk<1>(entry.x + begin, count);
  const double sum = block_sum<kSquareThreads>(mine);
  if (threadIdx.x == 0) sums[chunk] = sum;
}

// A block per tensor.
template <typename T>
__global__ void __launch_bounds__(kSquareThreads)
    finish_squares(const __grid_constant__ Table<SquaresEntry<T>> table, const double* sums) {
  const int e = static_cast<int>(blockIdx.x);
  const int end = e + 1 < table.used ? table.entries[e + 1].first_chunk : table.num_chunks;
  double sum = 0;
  for (int i = table.entries[e].first_chunk + static_cast<int>(threadIdx.x); i < end;
       i += kSquareThreads) {
    sum += sums[i];
  }
  sum = block_sum<kSquareThreads>(sum);
  if (threadIdx.x == 0) *table.entries[e].metric += sum;
}

template <typename T>
void launch_squares(Context& ctx, std::span<const SquaredTensor> tensors, double* metrics) {
  constexpr const char* kOp = "sum_squares";
  Table<SquaresEntry<T>> table;
  int64_t elements = 0;
  for (const auto& [x, metric] : tensors) {
    elements += x.numel();
    const bool packed = packable<T>(kPack<T>, x.as<T>());
    table.add({x.as<T>(), x.numel(), metrics + metric, 0, packed}, workspace::cuda::kSquaresChunk);
  }
  if (table.used == 0) return;
  const auto count = static_cast<int64_t>(tensors.size());
  Scratch scratch(kOp, ctx.workspace, workspace::cuda::sum_squares(elements, count));
  auto* sums = scratch.take<double>(table.num_chunks);
  const auto blocks = static_cast<unsigned>(table.num_chunks);
  squares_kernel<T><<<blocks, kSquareThreads, 0, ctx.gpu->stream()>>>(table, sums);
  check_launch(kOp);
  const auto entries = static_cast<unsigned>(table.used);
  finish_squares<T><<<entries, kSquareThreads, 0, ctx.gpu->stream()>>>(table, sums);
  check_launch(kOp);
}

// ---- labels ----
constexpr int kLabelThreads = 1024;

// The number of unmasked ones, to every thread of the block.
__device__ double unmasked(const int32_t* labels, int64_t count) {
  int64_t mine = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += kLabelThreads) mine += labels[i] >= 0 ? 1 : 0;
  return static_cast<double>(block_sum<kLabelThreads>(mine));
}

__global__ void __launch_bounds__(kLabelThreads)
    metrics_kernel(const double* loss, const int32_t* labels, int64_t count, int64_t last_part,
                   double* metrics) {
  const double all = unmasked(labels, count);
  const double last = unmasked(labels + count - last_part, last_part);
  if (threadIdx.x != 0) return;
  metrics[kMetricLoss] += *loss;
  metrics[kMetricTokens] += all;
  metrics[kMetricUpdateTokens] += last;
}

__global__ void __launch_bounds__(kLabelThreads)
    count_kernel(const int32_t* labels, int64_t part, double* counts) {
  const double count = unmasked(labels + blockIdx.x * part, part);
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

// ---- the update ----
// Blocks of few threads, each with one pack of every tensor, and as many of them as it takes: that
// keeps more of the memory busy than fewer blocks that go on to their next packs.
constexpr int kUpdateThreads = 128;
constexpr int kUpdateBlocks = 8;  // that a multiprocessor holds at once
template <typename T>
constexpr int kUpdatePack = sizeof(T) == 2 ? 8 : kPack<T>;
template <typename T>
constexpr int64_t kUpdateChunk = kUpdateThreads* kUpdatePack<T>;

// One block. The metrics are added up by one thread in their order, from shared memory where they
// fit there.
constexpr int64_t kMostStaged = 4096;
template <typename Rule, typename A>
__global__ void __launch_bounds__(kUpdateThreads)
    factors_kernel(const StepParams* params, const double* known, int64_t num_known,
                   UpdatePlace place, typename Rule::Factors* factors) {
  extern __shared__ double staged[];
  const bool stage = num_known <= kMostStaged;
  for (int64_t i = threadIdx.x; stage && i < num_known; i += kUpdateThreads) staged[i] = known[i];
  __syncthreads();
  if (threadIdx.x != 0) return;
  *factors = Rule::factors(*params, stage ? staged : known, num_known, place).template to<A>();
}

// M: elements of the master copy, Acc<T>, or int16_t for the rests of bf16 weights. G: of the
// gradient.
template <typename T, typename M, typename G>
struct UpdateEntry {
  M* master;
  Acc<T>*m, *v;
  const G* grad;
  T* weight;  // may be master
  int64_t count;
  int first_chunk;
  bool decay, packed;  // all tensors can be read in packs
};

// W neighbours of a bucket, on their way through an update. States that the rule does not keep are
// neither read nor written.
template <typename Rule, int W, typename T, typename M, typename G>
struct UpdatePack {
  using A = Acc<T>;
  static constexpr bool kRests = std::is_same_v<M, int16_t>;
  Values<G, W> grad;
  Values<A, W> m{}, v{};
  Values<M, W> master;
  Values<T, W> weight;

  __device__ UpdatePack(const UpdateEntry<T, M, G>& x, int64_t at)
      : grad(load_values<W>(x.grad + at)), master(load_values<W>(x.master + at)) {
    if constexpr (Rule::kStates > 0) m = load_values<W>(x.m + at);
    if constexpr (Rule::kStates > 1) v = load_values<W>(x.v + at);
    if constexpr (kRests) weight = load_values<W>(x.weight + at);
  }

  __device__ void update(const typename Rule::Factors& f, A decay) {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      if constexpr (kRests) {
        const float before = master_weight(__bfloat16_as_ushort(weight.at[i]), master.at[i]);
        const float after = Rule::step(f, decay, before, m.at[i], v.at[i], widen(grad.at[i]));
        weight.at[i] = narrow<T>(after);
        master.at[i] = rest_of_master(after, __bfloat16_as_ushort(weight.at[i]));
      } else {
        master.at[i] = Rule::step(f, decay, master.at[i], m.at[i], v.at[i], widen(grad.at[i]));
        weight.at[i] = narrow<T>(master.at[i]);
      }
    }
  }

  __device__ void store(const UpdateEntry<T, M, G>& x, int64_t at) const {
    if constexpr (Rule::kStates > 0) store_values(x.m + at, m);
    if constexpr (Rule::kStates > 1) store_values(x.v + at, v);
    store_values(x.master + at, master);
    if constexpr (std::is_same_v<T, M>) {
      if (x.weight == x.master) return;
    }
    store_values(x.weight + at, weight);
  }
};

template <typename Rule, typename T, typename M, typename G>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks)
    update_kernel(const __grid_constant__ Table<UpdateEntry<T, M, G>> table,
                  const typename Rule::Factors* known) {
  constexpr int W = kUpdatePack<T>;
  const typename Rule::Factors factors = *known;
  if (factors.skip) return;
  const int chunk = static_cast<int>(blockIdx.x);
  const UpdateEntry<T, M, G>& entry = table.entries[entry_of(table, chunk)];
  const Acc<T> decay = Rule::decay_of(factors, entry.decay);
  const int64_t begin = (chunk - entry.first_chunk) * kUpdateChunk<T>;
  const int64_t mine = begin + threadIdx.x * W;
  if (entry.packed && mine + W <= entry.count) {
    UpdatePack<Rule, W, T, M, G> pack(entry, mine);
    pack.update(factors, decay);
    pack.store(entry, mine);
    return;
  }
  // In packs that are not whole every thread takes its own elements, otherwise neighbours do.
  const int stride = entry.packed ? 1 : kUpdateThreads;
  int64_t i = entry.packed ? mine : begin + threadIdx.x;
  for (int left = W; left > 0 && i < entry.count; --left, i += stride) {
    UpdatePack<Rule, 1, T, M, G> one(entry, i);
    one.update(factors, decay);
    one.store(entry, i);
  }
}

template <typename T, typename M, typename G>
UpdateEntry<T, M, G> update_entry(const UpdatedTensors& x) {
  using A = Acc<T>;
  constexpr size_t kWidth = kUpdatePack<T>;
  UpdateEntry<T, M, G> entry{
      x.master.as<M>(), x.m.as<A>(), x.v.as<A>(), x.grad.as<G>(), x.weight.as<T>(),
      x.weight.numel(), 0,           x.decay,     false};
  const auto aligned = [](const auto* data) {
    return reinterpret_cast<uintptr_t>(data) % (kWidth * sizeof(*data)) == 0;
  };
  entry.packed = aligned(entry.master) && aligned(entry.m) && aligned(entry.v) &&
                 aligned(entry.grad) && aligned(entry.weight);
  return entry;
}

template <typename Rule, typename T, typename M, typename G>
void launch_update(const char* op, const Context& ctx, std::span<const UpdatedTensors> buckets,
                   const Tensor& known, const UpdatePlace& place) {
  Table<UpdateEntry<T, M, G>> table;
  static_assert(sizeof(table) <= 4000);  // 4096 bytes of parameters work everywhere
  for (const UpdatedTensors& bucket : buckets) {
    table.add(update_entry<T, M, G>(bucket), kUpdateChunk<T>);
  }
  if (table.used == 0) return;
  using F = typename Rule::Factors;
  static_assert(sizeof(F) <= workspace::cuda::kAdamFactorsBytes);
  Scratch scratch(op, ctx.workspace, workspace::cuda::kAdamFactorsBytes);
  F* const factors = scratch.take<F>(1);
  const int64_t staged = known.numel() <= kMostStaged ? known.bytes() : 0;
  factors_kernel<Rule, Acc<T>>
      <<<1, kUpdateThreads, static_cast<size_t>(staged), ctx.gpu->stream()>>>(
          ctx.params, known.as<double>(), known.numel(), place, factors);
  check_launch(op);
  const auto blocks = static_cast<unsigned>(table.num_chunks);
  update_kernel<Rule><<<blocks, kUpdateThreads, 0, ctx.gpu->stream()>>>(table, factors);
  check_launch(op);
}

// `RuleIn<A>`: the rule in arithmetic of type A.
template <template <typename> typename RuleIn>
void update_buckets(const char* op, Context& ctx, std::span<const UpdatedTensors> buckets,
                    const Tensor& known, const UpdatePlace& place) {
  const UpdatedTensors& first = buckets[0];
  dispatch(op, first.weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Rule = RuleIn<Acc<T>>;
    with_gradient<T>(first.grad, [&](auto gradient) {
      using G = typename decltype(gradient)::type;
      if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        if (first.master.dtype == DType::kBF16) {
          return launch_update<Rule, T, int16_t, G>(op, ctx, buckets, known, place);
        }
      }
      launch_update<Rule, T, Acc<T>, G>(op, ctx, buckets, known, place);
    });
  });
}

template <typename A>
using SgdWithMomentum = SgdRule<A, true>;
template <typename A>
using PlainSgd = SgdRule<A, false>;

}  // namespace

void sum_squares(Context& ctx, std::span<const SquaredTensor> tensors, Tensor& metrics) {
  dispatch("sum_squares", tensors[0].x.dtype, [&](auto tag) {
    launch_squares<typename decltype(tag)::type>(ctx, tensors, metrics.as<double>());
  });
}

void add_metrics(Context& ctx, const Tensor& loss, const Tensor& labels, Tensor& metrics,
                 int64_t updates) {
  metrics_kernel<<<1, kLabelThreads, 0, ctx.gpu->stream()>>>(
      loss.as<double>(), labels.as<int32_t>(), labels.numel(), labels.numel() / updates,
      metrics.as<double>());
  check_launch("add_metrics");
}

void count_tokens(Context& ctx, const Tensor& labels, Tensor& counts) {
  count_kernel<<<static_cast<unsigned>(counts.numel()), kLabelThreads, 0, ctx.gpu->stream()>>>(
      labels.as<int32_t>(), labels.numel() / counts.numel(), counts.as<double>());
  check_launch("count_tokens");
}

void adamw(Context& ctx, std::span<const UpdatedTensors> buckets, const Tensor& known,
           const UpdatePlace& place) {
  update_buckets<AdamRule>("adamw", ctx, buckets, known, place);
}

void sgd(Context& ctx, std::span<const UpdatedTensors> buckets, const Tensor& known,
         const UpdatePlace& place) {
  if (buckets[0].m.data == nullptr) {
    return update_buckets<PlainSgd>("sgd", ctx, buckets, known, place);
  }
  update_buckets<SgdWithMomentum>("sgd", ctx, buckets, known, place);
}

}  // namespace tessera::kernels::cuda

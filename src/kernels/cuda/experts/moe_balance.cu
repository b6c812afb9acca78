// The load-balancing loss of the router, from its statistics per sequence. A block per group.
#include "base/cuda_workspace.h"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/scratch.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// The number of unmasked labels, to every thread of the block.
__device__ double unmasked(const int32_t* labels, int64_t count) {
  int64_t mine = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += kThreads) mine += labels[i] >= 0 ? 1 : 0;
  return static_cast<double>(block_sum<kThreads>(mine));
}

// totals may be stats: a thread reads what it writes.
__global__ void __launch_bounds__(kThreads)
    totals_kernel(const double* stats, const int32_t* labels, double* totals, int64_t columns,
                  int64_t length) {
  const int64_t s = blockIdx.x;
  const double count = unmasked(labels + s * length, length);
  for (int64_t c = threadIdx.x; c < columns - 1; c += kThreads) {
    totals[s * columns + c] = stats[s * columns + c];
  }
  if (threadIdx.x == 0) totals[(s + 1) * columns - 1] = count;
}

// Sequences [first, last) of one group; every row is E choices, E sums of probability, labels.
struct Group {
  const double* totals;
  const BalanceShape& shape;
  int64_t first, last;

  __device__ Group(const double* all_totals, const BalanceShape& balance, int64_t sequences)
      : totals(all_totals),
        shape(balance),
        first(blockIdx.x * balance.group),
        last(min(first + balance.group, sequences)) {}
  [[nodiscard]] __device__ double sum(int64_t column) const {
    double sum = 0;
#pragma unroll 4
    for (int64_t s = first; s < last; ++s) sum += totals[s * (2 * shape.experts + 1) + column];
    return sum;
  }
  // 1 / (tokens of all layers), the divisor of both means.
  [[nodiscard]] __device__ double inverse_tokens() const {
    return 1.0 / static_cast<double>((last - first) * shape.seq_len * shape.layers);
  }
  // d loss / d (sum of the probability of an expert), per unmasked label.
  [[nodiscard]] __device__ double slope(int64_t expert) const {
    return shape.coef * static_cast<double>(shape.experts) * sum(expert) * inverse_tokens() *
           inverse_tokens();
  }
};

// losses[group]: the share of this rank, whose labels are those of `sequences_here`.
__global__ void __launch_bounds__(kThreads)
    group_losses(const double* totals, const int32_t* labels, double* losses, BalanceShape shape,
                 int64_t sequences, int64_t sequences_here, int64_t length) {
  const Group group(totals, shape, sequences);
  const int64_t begin = max(int64_t{0}, group.first - shape.first_sequence);
  const int64_t end = min(sequences_here, group.last - shape.first_sequence);
  const double mine = begin < end ? unmasked(labels + begin * length, (end - begin) * length) : 0.0;
  double loss = 0;
  for (int64_t e = threadIdx.x; e < shape.experts; e += kThreads) {
    loss += group.slope(e) * group.sum(shape.experts + e);
  }
  loss = block_sum<kThreads>(loss);
  if (threadIdx.x == 0) losses[blockIdx.x] = begin < end ? mine * loss : 0.0;
}

__global__ void __launch_bounds__(kThreads)
    add_losses(const double* losses, int64_t groups, double* loss, bool accumulate) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < groups; i += kThreads) sum += losses[i];
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) *loss = accumulate ? *loss + sum : sum;
}

__global__ void __launch_bounds__(kThreads)
    grad_kernel(const double* totals, double* d_totals, BalanceShape shape, int64_t sequences,
                const StepParams* params) {
  const Group group(totals, shape, sequences);
  const int64_t experts = shape.experts, columns = 2 * experts + 1;
  const double labels = group.sum(2 * experts);
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
    const bool probability = c >= experts && c < 2 * experts;
    const double slope = probability ? labels * group.slope(c - experts) * params->loss_scale : 0.0;
    for (int64_t s = group.first; s < group.last; ++s) d_totals[s * columns + c] = slope;
  }
}

unsigned num_groups(const Tensor& totals, const BalanceShape& shape) {
  return static_cast<unsigned>(ceil_div(totals.dim(0), shape.group));
}

}  // namespace

void balance_totals(Context& ctx, const Tensor& stats, const Tensor& labels, Tensor& totals) {
  const int64_t sequences = stats.dim(0);
  totals_kernel<<<static_cast<unsigned>(sequences), kThreads, 0, ctx.gpu->stream()>>>(
      stats.as<double>(), labels.as<int32_t>(), totals.as<double>(), stats.dim(1),
      labels.numel() / sequences);
  check_launch("balance_totals");
}

void balance_loss(Context& ctx, const Tensor& totals, const Tensor& labels, int64_t num_sequences,
                  const BalanceShape& shape, Tensor& loss, bool accumulate) {
  constexpr const char* kOp = "balance_loss";
  const int64_t sequences = totals.dim(0);
  const unsigned groups = num_groups(totals, shape);
  Scratch scratch(kOp, ctx.workspace, workspace::cuda::balance_loss(sequences));
  auto* losses = scratch.take<double>(groups);
  group_losses<<<groups, kThreads, 0, ctx.gpu->stream()>>>(
      totals.as<double>(), labels.as<int32_t>(), losses, shape, sequences, num_sequences,
      labels.numel() / num_sequences);
  check_launch(kOp);
  add_losses<<<1, kThreads, 0, ctx.gpu->stream()>>>(losses, groups, loss.as<double>(), accumulate);
  check_launch(kOp);
}

void balance_grad(Context& ctx, const Tensor& totals, const BalanceShape& shape, Tensor& d_totals) {
  if (totals.dim(0) == 0) return;
  grad_kernel<<<num_groups(totals, shape), kThreads, 0, ctx.gpu->stream()>>>(
      totals.as<double>(), d_totals.as<double>(), shape, totals.dim(0), ctx.params);
  check_launch("balance_grad");
}

}  // namespace tessera::kernels::cuda

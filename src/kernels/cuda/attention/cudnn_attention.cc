#include "kernels/cuda/attention/cudnn_attention.h"

#include <cmath>
#include <limits>
#include <optional>

#include "base/cuda_workspace.h"
#include "base/error.h"
#include "kernels/cuda/attention/attention_own.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/libraries/stopwatch.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cuda {
namespace {

using GraphTensor = CudnnGraph::Tensor;
using Dims = CudnnGraph::Dims;

enum Id : int64_t { kQ = 1, kK, kV, kO, kLse, kDo, kDq, kDk, kDv, kDots, kDqSum };

cudnnDataType_t data_type(DType type) {
  return type == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

// The letters of cuDNN's graphs: tensors are [B sequences, heads, S tokens, D columns], wherever
// their elements lie.
class Builder {
 public:
  Builder(const std::shared_ptr<const Cudnn>& cudnn, const CudnnAttentionShape& shape)
      : graph(cudnn), s_(shape), io_(data_type(shape.type)) {}

  CudnnGraph graph;

  // Columns of the heads of q[T, heads*D], and of the keys or values of kv[T, 2*kv_heads*D].
  GraphTensor of_queries(Id id) {
    return graph.tensor(id, io_, query_dims(), heads_apart(s_.heads));
  }
  GraphTensor of_keys(Id id) {
    return graph.tensor(id, io_, {s_.sequences, s_.kv_heads, s_.seq_len, s_.head_dim},
                        heads_apart(2 * s_.kv_heads));
  }
  // The same memory as [B, heads, D, S].
  GraphTensor of_keys_transposed(Id id) {
    const Dims at = heads_apart(2 * s_.kv_heads);
    return graph.tensor(id, io_, {s_.sequences, s_.kv_heads, s_.head_dim, s_.seq_len},
                        {at[0], at[1], at[3], at[2]});
  }
  // lse[T, heads].
  GraphTensor of_rows(Id id) {
    return graph.tensor(id, CUDNN_DATA_FLOAT, row_dims(), {s_.seq_len * s_.heads, 1, s_.heads, 1});
  }
  // One number per row, and the sums of dq, in scratch.
  GraphTensor scratch_rows(Id id) {
    return graph.tensor(id, CUDNN_DATA_FLOAT, row_dims(), packed(row_dims()));
  }
  GraphTensor scratch_queries(Id id) {
    return graph.tensor(id, CUDNN_DATA_FLOAT, query_dims(), packed(query_dims()));
  }

  [[nodiscard]] Dims query_dims() const {
    return {s_.sequences, s_.heads, s_.seq_len, s_.head_dim};
  }
  [[nodiscard]] Dims row_dims() const { return {s_.sequences, s_.heads, s_.seq_len, 1}; }
  [[nodiscard]] Dims score_dims() const { return {s_.sequences, s_.heads, s_.seq_len, s_.seq_len}; }
  [[nodiscard]] static Dims packed(const Dims& d) {
    return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
  }

  GraphTensor between(const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return graph.between(type, dims, packed(dims));
  }
  // A new tensor of scores.
  GraphTensor scores(cudnnPointwiseMode_t mode, std::initializer_list<GraphTensor> inputs,
                     cudnnDataType_t type = CUDNN_DATA_FLOAT,
                     cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT, int64_t axis = -1) {
    const GraphTensor y = between(score_dims(), type);
    graph.pointwise(mode, inputs, y, arithmetic, axis);
    return y;
  }
  // The transpose of scores, in the storage type.
  GraphTensor transposed(GraphTensor x) {
    const Dims d = score_dims(), at = packed(d);
    const GraphTensor y =
        graph.between(io_, {d[0], d[1], d[3], d[2]}, {at[0], at[1], at[3], at[2]});
    graph.reshape(x, y);
    return y;
  }
  GraphTensor product(GraphTensor a, GraphTensor b, const Dims& dims,
                      cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const GraphTensor c = between(dims, type);
    graph.matmul(a, b, c);
    return c;
  }
  [[nodiscard]] cudnnDataType_t io() const { return io_; }

  // cuDNN knows the mask by how it is written: indices of rows and columns, compared.
  GraphTensor masked(GraphTensor x) {
    x = keep_where(x, CUDNN_POINTWISE_CMP_GE, index(x, kRows), index(x, kColumns));
    if (s_.window == 0) return x;
    const GraphTensor row = index(x, kRows), column = index(x, kColumns);
    const GraphTensor last =
        scores(CUDNN_POINTWISE_ADD, {column, graph.scalar(static_cast<float>(s_.window))});
    return keep_where(x, CUDNN_POINTWISE_CMP_GT, last, row);
  }

 private:
  static constexpr int64_t kRows = 2, kColumns = 3;

  [[nodiscard]] Dims heads_apart(int64_t row_heads) const {
    const int64_t row = row_heads * s_.head_dim;
    return {s_.seq_len * row, s_.head_dim, row, 1};
  }
  GraphTensor index(GraphTensor x, int64_t axis) {
    return scores(CUDNN_POINTWISE_GEN_INDEX, {x}, CUDNN_DATA_INT32, CUDNN_DATA_FLOAT, axis);
  }
  GraphTensor keep_where(GraphTensor x, cudnnPointwiseMode_t compare, GraphTensor a,
                         GraphTensor b) {
    const GraphTensor seen = scores(compare, {a, b}, CUDNN_DATA_BOOLEAN, CUDNN_DATA_BOOLEAN);
    const GraphTensor nothing = graph.scalar(-std::numeric_limits<float>::infinity());
    return scores(CUDNN_POINTWISE_BINARY_SELECT, {x, nothing, seen});
  }

  CudnnAttentionShape s_;
  cudnnDataType_t io_;
};

// Values lie beside the keys: the second half of every row.
void* values_of(const Tensor& kv) {
  return kv.as<std::byte>() + kv.dim(1) / 2 * size_bytes(kv.dtype);
}

// Whether query heads share kv heads in equal groups, as cuDNN has it.
bool groups_are_even(const AttentionShape& shape) {
  if (shape.heads % shape.kv_heads != 0) return false;
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t head = 0; head < shape.heads; ++head) {
    const int64_t used = (shape.first_head + head) / shape.heads_per_kv - shape.first_kv_head;
    if (used != head / group) return false;
  }
  return true;
}

// What to look for among the plans, or nothing where it is known that there is none. Tiny shapes
// are not worth the time that making a plan takes.
std::optional<CudnnAttentionShape> served(const AttentionShape& shape, const Tensor& q,
                                          std::initializer_list<const void*> places) {
  constexpr int64_t kShortest = 128, kNarrowest = 32, kWidest = 256;
  const bool fits = (q.dtype == DType::kBF16 || q.dtype == DType::kF16) && shape.parts == 1 &&
                    shape.starts == nullptr && !shape.dropout.on() && shape.seq_len >= kShortest &&
                    shape.head_dim >= kNarrowest && shape.head_dim <= kWidest &&
                    shape.head_dim % 8 == 0 && q.dim(0) > 0 && groups_are_even(shape);
  if (!fits) return {};
  for (const void* place : places) {
    if (reinterpret_cast<uintptr_t>(place) % 16 != 0) return {};
  }
  return CudnnAttentionShape{q.dtype,
                             q.dim(0) / shape.seq_len,
                             shape.seq_len,
                             shape.heads,
                             shape.kv_heads,
                             shape.head_dim,
                             shape.window < shape.seq_len ? shape.window : 0};
}

float scale_of(const CudnnAttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
}

}  // namespace

CudnnGraph attention_graph(const std::shared_ptr<const Cudnn>& cudnn,
                           const CudnnAttentionShape& shape) {
  Builder g(cudnn, shape);
  GraphTensor x = g.product(g.of_queries(kQ), g.of_keys_transposed(kK), g.score_dims());
  x = g.scores(CUDNN_POINTWISE_MUL, {x, g.graph.scalar(scale_of(shape))});
  x = g.masked(x);
  const GraphTensor max = g.between(g.row_dims()), sum = g.between(g.row_dims());
  g.graph.reduce(CUDNN_REDUCE_TENSOR_MAX, x, max);
  const GraphTensor weights =
      g.scores(CUDNN_POINTWISE_EXP, {g.scores(CUDNN_POINTWISE_SUB, {x, max})});
  g.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sum);
  const GraphTensor log = g.between(g.row_dims());
  g.graph.pointwise(CUDNN_POINTWISE_LOG, {sum}, log);
  g.graph.pointwise(CUDNN_POINTWISE_ADD, {max, log}, g.of_rows(kLse));
  const GraphTensor p = g.scores(CUDNN_POINTWISE_DIV, {weights, sum}, g.io());
  g.graph.matmul(p, g.of_keys(kV), g.of_queries(kO));
  return std::move(g.graph);
}

CudnnGraph attention_grad_graph(const std::shared_ptr<const Cudnn>& cudnn,
                                const CudnnAttentionShape& shape) {
  Builder g(cudnn, shape);
  const GraphTensor q = g.of_queries(kQ), k = g.of_keys_transposed(kK),
                    v = g.of_keys_transposed(kV), d_o = g.of_queries(kDo);
  const GraphTensor scale = g.graph.scalar(scale_of(shape));
  // dots = the row sums of d_o * o.
  const GraphTensor both = g.between(g.query_dims()), sums = g.between(g.row_dims()),
                    dots = g.scratch_rows(kDots);
  g.graph.pointwise(CUDNN_POINTWISE_MUL, {d_o, g.of_queries(kO)}, both);
  g.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, both, sums);
  g.graph.pointwise(CUDNN_POINTWISE_MUL, {sums, g.graph.scalar(1)}, dots);
  // p = exp(masked scores - lse); dv = p^T d_o.
  GraphTensor x = g.product(q, k, g.score_dims());
  x = g.scores(CUDNN_POINTWISE_MUL, {x, scale});
  x = g.scores(CUDNN_POINTWISE_SUB, {x, g.of_rows(kLse)});
  const GraphTensor p = g.scores(CUDNN_POINTWISE_EXP, {g.masked(x)});
  const auto of_kv = [&](GraphTensor weights, GraphTensor rows, Id to) {
    const GraphTensor turned = g.transposed(weights);
    if (shape.heads == shape.kv_heads) return g.graph.matmul(turned, rows, g.of_keys(to));
    // Every query head has its part of its kv head's gradient.
    g.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, g.product(turned, rows, g.query_dims(), g.io()),
                   g.of_keys(to));
  };
  of_kv(p, d_o, kDv);
  // d_scores = p * (d_o v^T - dots) * scale; dk = d_scores^T q; dq = d_scores k.
  GraphTensor d = g.product(d_o, v, g.score_dims());
  d = g.scores(CUDNN_POINTWISE_SUB, {d, dots});
  d = g.scores(CUDNN_POINTWISE_MUL, {d, p});
  d = g.scores(CUDNN_POINTWISE_MUL, {d, scale});
  of_kv(d, q, kDk);
  const Dims key_dims{shape.sequences, shape.kv_heads, shape.seq_len, shape.head_dim};
  const int64_t row = 2 * shape.kv_heads * shape.head_dim;
  const GraphTensor keys =
      g.graph.between(CUDNN_DATA_FLOAT, key_dims, {shape.seq_len * row, shape.head_dim, row, 1});
  g.graph.reshape(k, keys);
  // Blocks add to dq in f32, in no order.
  const GraphTensor sum = g.scratch_queries(kDqSum);
  g.graph.matmul(d, keys, sum);
  g.graph.pointwise(CUDNN_POINTWISE_IDENTITY, {sum}, g.of_queries(kDq));
  return std::move(g.graph);
}

Attention::Attention(const Gpu& gpu) : gpu_(gpu), cudnn_(load_cudnn()) {
  constexpr int kOldest = 90600;  // from here on it clears the sums of dq itself
  require(cudnn_->version >= kOldest, "attention by cuDNN: found version {}, need at least {}",
          cudnn_->version, kOldest);
  cudnn_->check(cudnn_->cudnnCreate(&handle_), "opening cuDNN");
  cudnn_->check(cudnn_->cudnnSetStream(handle_, gpu_.stream()), "giving cuDNN its stream");
}

Attention::~Attention() {
  forward_.clear();
  backward_.clear();
  (void)cudnn_->cudnnDestroy(handle_);
}

template <typename MakeGraph>
CudnnExecutable* Attention::plan_of(Plans& plans, const CudnnAttentionShape& shape,
                                    int64_t workspace_bytes, const MakeGraph& make_graph,
                                    const Run& run, const std::function<void()>& run_own) {
  const auto [entry, fresh] = plans.try_emplace(shape);
  if (!fresh) return entry->second.get();
  constexpr size_t kMost = 16;
  std::vector<CudnnExecutable> found;
  try {
    found = make_graph(cudnn_, shape).plans(handle_, tune_at_first_use_ ? kMost : 1);
  } catch (const Error&) {
    return nullptr;  // cuDNN does not know such graphs
  }
  std::erase_if(
      found, [&](const CudnnExecutable& plan) { return plan.workspace_bytes > workspace_bytes; });
  if (found.empty()) return nullptr;
  entry->second = tune_at_first_use_ ? fastest(std::move(found), run, run_own)
                                     : std::make_unique<CudnnExecutable>(std::move(found.front()));
  return entry->second.get();
}

std::unique_ptr<CudnnExecutable> Attention::fastest(std::vector<CudnnExecutable> plans,
                                                    const Run& run,
                                                    const std::function<void()>& run_own) const {
  Stopwatch watch(gpu_.stream());
  double best = watch.shortest_ms(run_own);
  CudnnExecutable* choice = nullptr;
  for (CudnnExecutable& plan : plans) {
    const double ms = watch.shortest_ms([&] { run(plan); });
    if (ms >= best) continue;
    best = ms;
    choice = &plan;
  }
  return choice == nullptr ? nullptr : std::make_unique<CudnnExecutable>(std::move(*choice));
}

bool Attention::forward(Context& ctx, const Tensor& q, const Tensor& kv, Tensor& o, Tensor& lse,
                        const AttentionShape& shape) {
  const auto key = served(shape, q, {q.data, kv.data, o.data, lse.data});
  if (!key.has_value()) return false;
  constexpr int64_t kBytes = workspace::cuda::kCudnnBytes;
  Scratch scratch("attention", ctx.workspace, kBytes);
  void* const bytes = scratch.take<std::byte>(kBytes);
  const std::pair<int64_t, void*> tensors[] = {
      {kQ, q.data}, {kK, kv.data}, {kV, values_of(kv)}, {kO, o.data}, {kLse, lse.data}};
  const Run run = [&](CudnnExecutable& plan) { plan.execute(handle_, tensors, bytes); };
  CudnnExecutable* const plan = plan_of(forward_, *key, kBytes, attention_graph, run,
                                        [&] { own_attention(ctx, q, kv, {}, {}, o, lse, shape); });
  if (plan != nullptr) run(*plan);
  return plan != nullptr;
}

bool Attention::backward(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                         const Tensor& lse, const Tensor& d_o, Tensor& dq, Tensor& dkv,
                         const AttentionShape& shape) {
  if (gpu_.deterministic()) return false;
  const auto key =
      served(shape, q, {q.data, kv.data, o.data, lse.data, d_o.data, dq.data, dkv.data});
  if (!key.has_value()) return false;
  const int64_t tokens = q.dim(0);
  const int64_t most = workspace::cuda::cudnn_attention_grad_bytes(tokens, shape.heads,
                                                                   shape.kv_heads, shape.head_dim);
  Scratch scratch("attention_grad", ctx.workspace,
                  workspace::cuda::attention_grad(q.dtype, tokens, shape.heads, shape.kv_heads,
                                                  shape.head_dim));
  float* const dots = scratch.take<float>(tokens * shape.heads);
  float* const dq_sum = scratch.take<float>(q.numel());
  void* const bytes = scratch.take<std::byte>(most);
  const std::pair<int64_t, void*> tensors[] = {
      {kQ, q.data},          {kK, kv.data},   {kV, values_of(kv)}, {kO, o.data},
      {kLse, lse.data},      {kDo, d_o.data}, {kDq, dq.data},      {kDk, dkv.data},
      {kDv, values_of(dkv)}, {kDots, dots},   {kDqSum, dq_sum}};
  const Run run = [&](CudnnExecutable& plan) { plan.execute(handle_, tensors, bytes); };
  CudnnExecutable* const plan = plan_of(backward_, *key, most, attention_grad_graph, run, [&] {
    own_attention_grad(ctx, q, kv, o, lse, d_o, {}, dq, dkv, shape);
  });
  if (plan != nullptr) run(*plan);
  return plan != nullptr;
}

}  // namespace tessera::kernels::cuda

// Attention by cuDNN's fused kernels, for the shapes that they serve: bf16 and f16, whole
// sequences, no dropout, every kv head used by as many query heads.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cuda/libraries/cudnn_graph.h"

namespace tessera::kernels::cuda {

class Gpu;

// What a plan depends on.
struct CudnnAttentionShape {
  DType type = DType::kBF16;
  int64_t sequences = 0, seq_len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // 0: all up to its own
  auto operator<=>(const CudnnAttentionShape&) const = default;
};

CudnnGraph attention_graph(const std::shared_ptr<const Cudnn>& cudnn,
                           const CudnnAttentionShape& shape);
CudnnGraph attention_grad_graph(const std::shared_ptr<const Cudnn>& cudnn,
                                const CudnnAttentionShape& shape);

// Plans are made at the first use of a shape and kept. Used by one thread at a time, on the stream
// of its Gpu.
class Attention {
 public:
  // Throws Error where cuDNN is missing or too old.
  explicit Attention(const Gpu& gpu);
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  // Do what attention and attention_grad do, or return false, with nothing done, where kernels of
  // our own are to be used: cuDNN does not serve the shape, or needs more scratch than planned, or
  // is slower. Its backward pass adds by atomics (in a fixed order only with scratch of S x S
  // scores), so a deterministic Gpu never uses it.
  [[nodiscard]] bool forward(Context& ctx, const Tensor& q, const Tensor& kv, Tensor& o,
                             Tensor& lse, const AttentionShape& shape);
  [[nodiscard]] bool backward(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                              const Tensor& lse, const Tensor& d_o, Tensor& dq, Tensor& dkv,
                              const AttentionShape& shape);

  // While on, the first use of a shape times every plan that cuDNN suggests, and kernels of our
  // own, and keeps the fastest. Waits for the GPU; nothing inside a stream capture.
  void tune_at_first_use(bool on) { tune_at_first_use_ = on; }

 private:
  using Plans = std::map<CudnnAttentionShape, std::unique_ptr<CudnnExecutable>>;  // null: our own
  using Run = std::function<void(CudnnExecutable&)>;

  template <typename MakeGraph>
  CudnnExecutable* plan_of(Plans& plans, const CudnnAttentionShape& shape, int64_t workspace_bytes,
                           const MakeGraph& make_graph, const Run& run,
                           const std::function<void()>& run_own);
  std::unique_ptr<CudnnExecutable> fastest(std::vector<CudnnExecutable> plans, const Run& run,
                                           const std::function<void()>& run_own) const;

  const Gpu& gpu_;
  std::shared_ptr<const Cudnn> cudnn_;
  cudnnHandle_t handle_ = nullptr;
  Plans forward_, backward_;
  bool tune_at_first_use_ = false;
};

}  // namespace tessera::kernels::cuda

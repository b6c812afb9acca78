// cuDNN's attention against kernels of our own, which other tests hold to the CPU's.
#include "kernels/cuda/attention/cudnn_attention.h"

#include "base/cuda_workspace.h"
#include "kernels/cuda/attention/attention_own.h"
#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

struct Case {
  DType type;
  int64_t sequences;
  AttentionShape shape;
};

std::vector<Case> cases() {
  return {
      {DType::kBF16, 2, {.seq_len = 256, .heads = 3, .kv_heads = 3, .head_dim = 64}},
      {DType::kBF16,
       2,
       {.seq_len = 300, .heads = 4, .kv_heads = 2, .head_dim = 128, .heads_per_kv = 2}},
      {DType::kF16,
       1,
       {.seq_len = 384,
        .heads = 4,
        .kv_heads = 1,
        .head_dim = 64,
        .heads_per_kv = 4,
        .first_head = 8,
        .first_kv_head = 2,
        .window = 100}},
  };
}

struct Data {
  OnGpu q, kv, d_o, o, lse, dq, dkv;
  Data(const Case& c, Rng& rng) : Data(c, c.sequences * c.shape.seq_len, rng) {}
  Data(const Case& c, int64_t tokens, Rng& rng)
      : q(random(c, tokens, c.shape.heads, rng)),
        kv(random(c, tokens, 2 * c.shape.kv_heads, rng)),
        d_o(random(c, tokens, c.shape.heads, rng)),
        o(Array(c.type, {tokens, c.shape.heads * c.shape.head_dim})),
        lse(Array(DType::kF32, {tokens, c.shape.heads})),
        dq(o.get()),
        dkv(Array(c.type, {tokens, 2 * c.shape.kv_heads * c.shape.head_dim})) {}

  static Array random(const Case& c, int64_t tokens, int64_t heads, Rng& rng) {
    return Array(c.type, {tokens, heads * c.shape.head_dim}).randomise(rng);
  }
};

int64_t scratch_bytes(const Case& c) {
  return workspace::cuda::attention_grad(c.type, c.sequences * c.shape.seq_len, c.shape.heads,
                                         c.shape.kv_heads, c.shape.head_dim);
}

TEST(CudaCudnnAttention, MatchesKernelsOfOurOwn) {
  SKIP_WITHOUT_GPU();
  Rng rng(1);
  for (const Case& c : cases()) {
    SCOPED_TRACE(fmt::format("S {} D {} {}", c.shape.seq_len, c.shape.head_dim, name_of(c.type)));
    GpuRig rig(scratch_bytes(c), {.deterministic = false});
    Context& ctx = rig;
    Attention* const cudnn = rig.gpu().attention();
    if (cudnn == nullptr) GTEST_SKIP() << "no cuDNN";
    Data x(c, rng);
    OnGpu o(x.o.get()), lse(x.lse.get()), dq(x.dq.get()), dkv(x.dkv.get());
    own_attention(ctx, x.q, x.kv, {}, {}, o, lse, c.shape);
    own_attention_grad(ctx, x.q, x.kv, o, lse, x.d_o, {}, dq, dkv, c.shape);
    ASSERT_TRUE(cudnn->forward(ctx, x.q, x.kv, x.o, x.lse, c.shape));
    expect_same(x.o, o.get(), 2e-2);
    expect_same(x.lse, lse.get(), 1e-4);
    ASSERT_TRUE(cudnn->backward(ctx, x.q, x.kv, o, lse, x.d_o, x.dq, x.dkv, c.shape));
    expect_same(x.dq, dq.get(), 2e-2);
    expect_same(x.dkv, dkv.get(), 2e-2);
  }
}

TEST(CudaCudnnAttention, TuningKeepsWhatIsRight) {
  SKIP_WITHOUT_GPU();
  Rng rng(3);
  const Case c = cases()[1];
  GpuRig rig(scratch_bytes(c), {.deterministic = false});
  Context& ctx = rig;
  if (rig.gpu().attention() == nullptr) GTEST_SKIP() << "no cuDNN";
  Data x(c, rng);
  OnGpu o(x.o.get()), lse(x.lse.get()), dq(x.dq.get()), dkv(x.dkv.get());
  own_attention(ctx, x.q, x.kv, {}, {}, o, lse, c.shape);
  own_attention_grad(ctx, x.q, x.kv, o, lse, x.d_o, {}, dq, dkv, c.shape);
  rig.gpu().attention()->tune_at_first_use(true);
  for (int i = 0; i < 2; ++i) {
    kernels::attention(ctx, x.q, x.kv, x.o, x.lse, c.shape);
    kernels::attention_grad(ctx, x.q, x.kv, o, lse, x.d_o, x.dq, x.dkv, c.shape);
    rig.gpu().attention()->tune_at_first_use(false);
  }
  expect_same(x.o, o.get(), 2e-2);
  expect_same(x.dq, dq.get(), 2e-2);
  expect_same(x.dkv, dkv.get(), 2e-2);
}

TEST(CudaCudnnAttention, LeavesOtherShapesToOurOwn) {
  SKIP_WITHOUT_GPU();
  Rng rng(2);
  Case c = cases()[1];
  GpuRig rig(scratch_bytes(c));
  Context& ctx = rig;
  Attention* const cudnn = rig.gpu().attention();
  if (cudnn == nullptr) GTEST_SKIP() << "no cuDNN";
  Data x(c, rng);
  EXPECT_FALSE(cudnn->backward(ctx, x.q, x.kv, x.o, x.lse, x.d_o, x.dq, x.dkv, c.shape))
      << "it is not deterministic";
  c.shape.dropout.rate = 0.1;
  EXPECT_FALSE(cudnn->forward(ctx, x.q, x.kv, x.o, x.lse, c.shape));
  c = cases()[1];
  c.shape.heads_per_kv = 3;  // heads 0 to 2 share a kv head, head 3 has its own
  EXPECT_FALSE(cudnn->forward(ctx, x.q, x.kv, x.o, x.lse, c.shape));
}

}  // namespace
}  // namespace tessera::kernels::cuda

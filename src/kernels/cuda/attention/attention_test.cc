// Attention by kernels of our own against the same call on the CPU.
#include <algorithm>
#include <cstdlib>

#include "base/cuda_workspace.h"
#include "kernels/cuda/attention/attention_own.h"
#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

struct Case {
  int64_t sequences;
  AttentionShape shape;
  bool documents = false;
};

DropoutMask some_dropout() {
  return {.rate = 0.3, .unit = 2, .site = DropoutSite::kAttention, .first_sample = 5};
}

std::string text_of(const Case& c, DType type) {
  const AttentionShape& s = c.shape;
  return fmt::format(
      "{} x S {} heads {} of {} on {}, window {}, parts {} ({} on {}), dropout {}, documents {} {}",
      c.sequences, s.seq_len, s.heads, s.head_dim, s.kv_heads, s.window, s.parts, s.q_part,
      s.kv_part, s.dropout.rate, c.documents, name_of(type));
}

std::vector<Case> whole_cases() {
  return {
      {1, {.seq_len = 1, .heads = 1, .kv_heads = 1, .head_dim = 2}},
      {3, {.seq_len = 7, .heads = 2, .kv_heads = 2, .head_dim = 3}},
      {2, {.seq_len = 65, .heads = 4, .kv_heads = 2, .head_dim = 8, .heads_per_kv = 2}},
      {1, {.seq_len = 130, .heads = 3, .kv_heads = 1, .head_dim = 65, .heads_per_kv = 3}},
      {2, {.seq_len = 128, .heads = 2, .kv_heads = 1, .head_dim = 64, .heads_per_kv = 2}},
      {1, {.seq_len = 200, .heads = 2, .kv_heads = 2, .head_dim = 128}},
      {1, {.seq_len = 97, .heads = 2, .kv_heads = 1, .head_dim = 256, .heads_per_kv = 2}},
      {1, {.seq_len = 70, .heads = 1, .kv_heads = 1, .head_dim = 130}},
      // A rank in the middle: query heads 2..4 of groups of 2 use kv heads 1 and 2 of 0..3.
      {2,
       {.seq_len = 33,
        .heads = 3,
        .kv_heads = 4,
        .head_dim = 6,
        .heads_per_kv = 2,
        .first_head = 2}},
      // The kv heads stored here start at 1.
      {1,
       {.seq_len = 65,
        .heads = 2,
        .kv_heads = 1,
        .head_dim = 40,
        .heads_per_kv = 4,
        .first_head = 5,
        .first_kv_head = 1}},
      // Windows: of two keys, smaller and larger than a tile, longer than the sequence.
      {2, {.seq_len = 9, .heads = 2, .kv_heads = 2, .head_dim = 3, .window = 2}},
      {1,
       {.seq_len = 200, .heads = 4, .kv_heads = 1, .head_dim = 16, .heads_per_kv = 4, .window = 5}},
      {1, {.seq_len = 300, .heads = 2, .kv_heads = 2, .head_dim = 64, .window = 70}},
      {2,
       {.seq_len = 21, .heads = 2, .kv_heads = 1, .head_dim = 4, .heads_per_kv = 2, .window = 40}},
      {2,
       {.seq_len = 150,
        .heads = 2,
        .kv_heads = 1,
        .head_dim = 32,
        .heads_per_kv = 2,
        .first_head = 4,
        .first_kv_head = 2,
        .dropout = some_dropout()}},
      // Documents shorter and longer than a tile, with windows and without.
      {2, {.seq_len = 300, .heads = 4, .kv_heads = 2, .head_dim = 64, .heads_per_kv = 2}, true},
      {1, {.seq_len = 700, .heads = 1, .kv_heads = 1, .head_dim = 128}, true},
      {1, {.seq_len = 260, .heads = 2, .kv_heads = 2, .head_dim = 33, .window = 20}, true},
      {2, {.seq_len = 97, .heads = 1, .kv_heads = 1, .head_dim = 256}, true},
  };
}

// Queries of one part, or of all, on keys of one part, or of all.
std::vector<Case> split_cases() {
  std::vector<Case> all;
  const AttentionShape base{
      .seq_len = 156, .heads = 4, .kv_heads = 2, .head_dim = 20, .heads_per_kv = 2};
  for (const int64_t parts : {2, 3}) {
    for (int64_t q = SequenceRows::kAllParts; q < parts; ++q) {
      for (int64_t kv = SequenceRows::kAllParts; kv < parts; ++kv) {
        AttentionShape shape = base;
        shape.parts = parts;
        shape.q_part = q;
        shape.kv_part = kv;
        shape.window = (q + kv) % 2 == 0 ? 0 : 30;
        if (q == 1) shape.dropout = some_dropout();
        all.push_back({2, shape});
        all.push_back({2, shape, true});
      }
    }
  }
  return all;
}

// All of them, or with TESSERA_SHORT_TESTS few with short sequences: for tools that watch every
// access to memory (tools/gpu_sanitize.sh).
std::vector<Case> chosen(std::vector<Case> cases) {
  if (std::getenv("TESSERA_SHORT_TESTS") == nullptr) return cases;
  constexpr size_t kMost = 6;
  std::erase_if(cases, [](const Case& c) { return c.shape.seq_len > 160; });
  cases.resize(std::min(cases.size(), kMost));
  for (Case& c : cases) c.sequences = 1;
  return cases;
}

// Documents of one to a few hundred tokens, the same in every sequence, for both sides.
class Documents {
 public:
  explicit Documents(const Case& c) : starts_(placed(c)), on_gpu_(starts_) {}
  [[nodiscard]] AttentionShape cpu(const Case& c) const { return with(c, starts_.tensor()); }
  [[nodiscard]] AttentionShape gpu(const Case& c) const { return with(c, on_gpu_); }

 private:
  static AttentionShape with(const Case& c, const Tensor& starts) {
    AttentionShape shape = c.shape;
    if (c.documents) shape.starts = starts.as<int32_t>();
    return shape;
  }
  static Array placed(const Case& c) {
    const SequenceRows rows = c.shape.q_rows();
    Array starts(DType::kI32, {c.sequences * rows.length()});
    std::vector<int64_t> begins;  // by position
    for (int64_t length = 1; static_cast<int64_t>(begins.size()) < c.shape.seq_len; length *= 3) {
      begins.insert(begins.end(), static_cast<size_t>(length), static_cast<int64_t>(begins.size()));
      if (length > 100) length = 1;
    }
    for (int64_t b = 0; b < c.sequences; ++b) {
      for (int64_t chunk = 0; chunk < rows.num_chunks(); ++chunk) {
        for (int64_t i = 0; i < rows.chunk_len(); ++i) {
          const int64_t start = begins[static_cast<size_t>(rows.first_position(chunk) + i)];
          starts.set(rows.first_row(chunk, b, c.sequences) + i, static_cast<double>(start));
        }
      }
    }
    return starts;
  }

  Array starts_;
  OnGpu on_gpu_;
};

double tight(DType type) { return 4 * tolerance(type); }

// A softmax over known keys, as a rank has it before it sees those of another.
struct Known {
  Array o, lse;
  Known(DType wide, int64_t tokens, const AttentionShape& s, Rng& rng)
      : o(wide, {tokens, s.heads * s.head_dim}), lse(wide, {tokens, s.heads}) {
    o.randomise(rng);
    lse.randomise(rng);
  }
};

struct Inputs {
  Array q, kv, d_o;
  Inputs(DType type, const Case& c, Rng& rng)
      : q(type, {c.sequences * c.shape.q_rows().length(), c.shape.heads * c.shape.head_dim}),
        kv(type,
           {c.sequences * c.shape.kv_rows().length(), 2 * c.shape.kv_heads * c.shape.head_dim}),
        d_o(q) {
    q.randomise(rng);
    kv.randomise(rng);
    d_o.randomise(rng);
  }
};

// As expect_close, for numbers that may be -inf on both sides.
void expect_same_lse(const Array& actual, const Array& expected, double relative) {
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (std::isinf(expected.get(i))) {
      ASSERT_EQ(actual.get(i), expected.get(i)) << "element " << i;
    } else {
      ASSERT_NEAR(actual.get(i), expected.get(i), relative * 10) << "element " << i;
    }
  }
}

Array poisoned(const Array& like, DType type) {
  return Array(type, {like.tensor().dim(0), like.tensor().dim(1)});
}

int64_t scratch_bytes(DType type, const Case& c) {
  const AttentionShape& s = c.shape;
  return workspace::cuda::attention_grad(type, c.sequences * s.q_rows().length(), s.heads,
                                         s.kv_heads, s.head_dim);
}

const StepParams kParams{.step = 3, .seed = 77};

TEST(CudaAttention, MatchesTheCpuForEveryTypeAndShape) {
  SKIP_WITHOUT_GPU();
  Rng rng(1);
  for (const Case& c : chosen(whole_cases())) {
    const Documents documents(c);
    const AttentionShape shape = documents.cpu(c), gpu_shape = documents.gpu(c);
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(text_of(c, type));
      const Inputs in(type, c, rng);
      const DType wide = accumulate_type(type);
      Array o = poisoned(in.q, type), lse(wide, {in.q.tensor().dim(0), c.shape.heads});
      Array dq = poisoned(in.q, type), dkv = poisoned(in.kv, type);
      const OnGpu q(in.q), kv(in.kv), d_o(in.d_o);
      OnGpu o_gpu(o), lse_gpu(lse), dq_gpu(dq), dkv_gpu(dkv), dq_again(dq), dkv_again(dkv);
      Rig cpu(1, workspace::attention_grad(type, c.shape.seq_len, c.shape.head_dim, 1));
      cpu.params() = kParams;
      GpuRig gpu(scratch_bytes(type, c));
      gpu.set_params(kParams);
      kernels::attention(cpu, in.q, in.kv, o, lse, shape);
      own_attention(gpu, q, kv, {}, {}, o_gpu, lse_gpu, gpu_shape);
      expect_same(o_gpu, o, tight(type));
      expect_same_lse(lse_gpu.get(), lse, tight(wide));
      // The gradients of both from the same forward pass.
      const OnGpu o_cpu(o), lse_cpu(lse);
      kernels::attention_grad(cpu, in.q, in.kv, o, lse, in.d_o, dq, dkv, shape);
      own_attention_grad(gpu, q, kv, o_cpu, lse_cpu, d_o, {}, dq_gpu, dkv_gpu, gpu_shape);
      expect_same(dq_gpu, dq, tight(type));
      expect_same(dkv_gpu, dkv, tight(type));
      own_attention_grad(gpu, q, kv, o_cpu, lse_cpu, d_o, {}, dq_again, dkv_again, gpu_shape);
      EXPECT_TRUE(dq_again.get().same_bits(dq_gpu.get()));
      EXPECT_TRUE(dkv_again.get().same_bits(dkv_gpu.get()));
    }
  }
}

TEST(CudaAttention, PartsOfSequencesMatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(2);
  for (const Case& c : chosen(split_cases())) {
    const Documents documents(c);
    const AttentionShape shape = documents.cpu(c), gpu_shape = documents.gpu(c);
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(text_of(c, type));
      const Inputs in(type, c, rng);
      const DType wide = accumulate_type(type);
      const int64_t tokens = in.q.tensor().dim(0);
      const Known known(wide, tokens, c.shape, rng);
      Array o = poisoned(in.q, wide), lse(wide, {tokens, c.shape.heads});
      const OnGpu q(in.q), kv(in.kv), d_o(in.d_o), o_known(known.o), lse_known(known.lse);
      OnGpu o_gpu(o), lse_gpu(lse);
      Rig cpu(1, workspace::attention_grad(type, c.shape.seq_len, c.shape.head_dim, 1));
      cpu.params() = kParams;
      GpuRig gpu(scratch_bytes(type, c));
      gpu.set_params(kParams);
      // Alone: queries that see nothing get zeros and -inf.
      kernels::attention_part(cpu, in.q, in.kv, {}, {}, o, lse, shape);
      kernels::attention_part(gpu, q, kv, {}, {}, o_gpu, lse_gpu, gpu_shape);
      expect_same(o_gpu, o, tight(type));
      expect_same_lse(lse_gpu.get(), lse, tight(wide));
      // With what is known, out of place and in place.
      kernels::attention_part(cpu, in.q, in.kv, known.o, known.lse, o, lse, shape);
      kernels::attention_part(gpu, q, kv, o_known, lse_known, o_gpu, lse_gpu, gpu_shape);
      expect_same(o_gpu, o, tight(type));
      expect_same_lse(lse_gpu.get(), lse, tight(wide));
      OnGpu o_place(known.o), lse_place(known.lse);
      kernels::attention_part(gpu, q, kv, o_place, lse_place, o_place, lse_place, gpu_shape);
      EXPECT_TRUE(o_place.get().same_bits(o_gpu.get()));
      EXPECT_TRUE(lse_place.get().same_bits(lse_gpu.get()));
      // Gradients of these keys, alone and on top of others.
      const Array stored = convert(o, type);
      const OnGpu stored_gpu(stored), lse_cpu(lse);
      Array dq = poisoned(in.q, wide), dkv = poisoned(in.kv, wide);
      OnGpu dq_gpu(dq), dkv_gpu(dkv), dq_place(known.o);
      kernels::attention_grad_part(cpu, in.q, in.kv, stored, lse, in.d_o, {}, dq, dkv, shape);
      kernels::attention_grad_part(gpu, q, kv, stored_gpu, lse_cpu, d_o, {}, dq_gpu, dkv_gpu,
                                   gpu_shape);
      expect_same(dq_gpu, dq, tight(type));
      expect_same(dkv_gpu, dkv, tight(type));
      kernels::attention_grad_part(cpu, in.q, in.kv, stored, lse, in.d_o, known.o, dq, dkv, shape);
      kernels::attention_grad_part(gpu, q, kv, stored_gpu, lse_cpu, d_o, dq_place, dq_place,
                                   dkv_gpu, gpu_shape);
      expect_same(dq_place, dq, tight(type));
    }
  }
}

TEST(CudaAttention, LargeScoresStayFinite) {
  SKIP_WITHOUT_GPU();
  Rng rng(3);
  const Case c{1, {.seq_len = 100, .heads = 2, .kv_heads = 2, .head_dim = 64}};
  for (const DType type : {DType::kF64, DType::kF32, DType::kBF16}) {
    Inputs in(type, c, rng);
    in.q.randomise(rng, 60);
    in.kv.randomise(rng, 60);
    const OnGpu q(in.q), kv(in.kv), d_o(in.d_o);
    OnGpu o(poisoned(in.q, type)), dq(poisoned(in.q, type)), dkv(poisoned(in.kv, type)),
        lse(Array(accumulate_type(type), {in.q.tensor().dim(0), c.shape.heads}));
    GpuRig gpu(scratch_bytes(type, c));
    kernels::attention(gpu, q, kv, o, lse, c.shape);
    kernels::attention_grad(gpu, q, kv, o, lse, d_o, dq, dkv, c.shape);
    for (const OnGpu* x : {&o, &lse, &dq, &dkv}) EXPECT_EQ(first_nonfinite(x->get()), -1);
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda

#include "kernels/testing/attention_reference.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

using Case = AttentionCase;

const std::vector<Case> kCases = attention_cases({
    {1, {.seq_len = 150, .heads = 3, .kv_heads = 1, .head_dim = 16, .heads_per_kv = 3}},
    // A rank in the middle: query heads 2..4 of groups of 2 use kv heads 1 and 2 of 0..3.
    {2,
     {.seq_len = 33, .heads = 3, .kv_heads = 4, .head_dim = 6, .heads_per_kv = 2, .first_head = 2}},
    // The kv heads stored here start at 1.
    {1,
     {.seq_len = 65,
      .heads = 2,
      .kv_heads = 1,
      .head_dim = 4,
      .heads_per_kv = 4,
      .first_head = 5,
      .first_kv_head = 1}},
    // Windows: of two keys, smaller and larger than a block of queries, longer than the sequence.
    {2, {.seq_len = 9, .heads = 2, .kv_heads = 2, .head_dim = 3, .window = 2}},
    {1, {.seq_len = 65, .heads = 4, .kv_heads = 1, .head_dim = 4, .heads_per_kv = 4, .window = 5}},
    {1, {.seq_len = 150, .heads = 2, .kv_heads = 2, .head_dim = 8, .window = 70}},
    {2, {.seq_len = 21, .heads = 2, .kv_heads = 1, .head_dim = 4, .heads_per_kv = 2, .window = 40}},
});

struct Inputs {
  Array q, kv, d_o;
  Inputs(DType type, const Case& c, Rng& rng)
      : q(type, {c.batch * c.shape.seq_len, c.shape.heads * c.shape.head_dim}),
        kv(type, {c.batch * c.shape.seq_len, 2 * c.shape.kv_heads * c.shape.head_dim}),
        d_o(type, {c.batch * c.shape.seq_len, c.shape.heads * c.shape.head_dim}) {
    q.randomise(rng);
    kv.randomise(rng);
    d_o.randomise(rng);
  }
};

struct Results {
  Array o, lse, dq, dkv;
  Results(const Inputs& in, const Case& c, int threads)
      : o(in.q.type(), {in.q.tensor().dim(0), in.q.tensor().dim(1)}),
        lse(accumulate_type(in.q.type()), {in.q.tensor().dim(0), c.shape.heads}),
        dq(in.q.type(), {in.q.tensor().dim(0), in.q.tensor().dim(1)}),
        dkv(in.q.type(), {in.kv.tensor().dim(0), in.kv.tensor().dim(1)}) {
    const auto& s = c.shape;
    Rig forward(threads, workspace::attention(in.q.type(), s.seq_len, s.head_dim, threads));
    attention(forward, in.q, in.kv, o, lse, s);
    Rig backward(threads, workspace::attention_grad(in.q.type(), s.seq_len, s.head_dim, threads));
    attention_grad(backward, in.q, in.kv, o, lse, in.d_o, dq, dkv, s);
  }
};

TEST(Attention, MatchesAReferenceForEveryTypeShapeAndTeam) {
  Rng rng(1);
  for (const Case& c : kCases) {
    for (const DType type : kFloatTypes) {
      const Inputs in(type, c, rng);
      const AttentionForward want = attention_reference(
          in.q, in.kv, c, [](int64_t, int64_t, int64_t, int64_t) { return 1.0; });
      for (const int threads : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("S {} {} threads {}", c.shape.seq_len, name_of(type), threads));
        const Results got(in, c, threads);
        expect_close(got.o, want.o, tolerance(type));
        expect_close(got.lse, want.lse, tolerance(accumulate_type(type)));
      }
    }
  }
}

TEST(Attention, GradientsMatchFiniteDifferences) {
  Rng rng(2);
  for (const Case& c : kCases) {
    if (c.shape.seq_len > 65) continue;  // slow, and two query blocks are enough
    SCOPED_TRACE(fmt::format("S {}", c.shape.seq_len));
    Inputs in(DType::kF64, c, rng);
    const Results got(in, c, 2);
    Array o = got.o, lse = got.lse;
    Rig rig(1, workspace::attention(DType::kF64, c.shape.seq_len, c.shape.head_dim, 1));
    const auto loss = [&] {
      attention(rig, in.q, in.kv, o, lse, c.shape);
      return dot(o, in.d_o);
    };
    expect_close(got.dq, numeric_gradient(in.q, loss), kNumericTolerance);
    expect_close(got.dkv, numeric_gradient(in.kv, loss), kNumericTolerance);
  }
}

TEST(Attention, GradientsOfEveryTypeMatchDoublePrecision) {
  Rng rng(3);
  for (const Case& c : kCases) {
    for (const DType type : {DType::kF32, DType::kBF16}) {
      const Inputs in(type, c, rng);
      Inputs exact(DType::kF64, c, rng);
      for (int64_t i = 0; i < in.q.size(); ++i) exact.q.set(i, in.q.get(i));
      for (int64_t i = 0; i < in.kv.size(); ++i) exact.kv.set(i, in.kv.get(i));
      for (int64_t i = 0; i < in.d_o.size(); ++i) exact.d_o.set(i, in.d_o.get(i));
      const Results want(exact, c, 1);
      for (const int threads : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("S {} {} threads {}", c.shape.seq_len, name_of(type), threads));
        const Results got(in, c, threads);
        expect_close(got.dq, want.dq.values(), 4 * tolerance(type));
        expect_close(got.dkv, want.dkv.values(), 4 * tolerance(type));
      }
    }
  }
}

TEST(Attention, TheNumberOfThreadsDoesNotChangeABit) {
  Rng rng(4);
  const Inputs in(DType::kF32, kCases[2], rng);
  const Results one(in, kCases[2], 1), three(in, kCases[2], 3);
  EXPECT_TRUE(one.o.same_bits(three.o));
  EXPECT_TRUE(one.dq.same_bits(three.dq));
  EXPECT_TRUE(one.dkv.same_bits(three.dkv));
}

TEST(Attention, LargeScoresStayFinite) {
  Rng rng(5);
  Inputs in(DType::kF32, kCases[2], rng);
  in.q.randomise(rng, 60);
  in.kv.randomise(rng, 60);
  const Results got(in, kCases[2], 1);
  for (const Array* x : {&got.o, &got.lse, &got.dq, &got.dkv}) {
    EXPECT_EQ(first_nonfinite(*x), -1);
  }
}

TEST(Attention, FutureKeysDoNotMatter) {
  Rng rng(6);
  const Case& c = kCases[1];
  Inputs in(DType::kF32, c, rng);
  const Results clean(in, c, 1);
  // Rows of the first sequence come first; its last token is visible to itself only.
  const int64_t width = in.kv.tensor().dim(1), last = c.shape.seq_len - 1;
  for (int64_t i = last * width; i < (last + 1) * width; ++i) in.kv.set(i, 1e30);
  Array o = clean.o, lse = clean.lse;
  Rig rig(1, workspace::attention(DType::kF32, c.shape.seq_len, c.shape.head_dim, 1));
  attention(rig, in.q, in.kv, o, lse, c.shape);
  const int64_t o_width = o.tensor().dim(1);
  for (int64_t i = 0; i < last * o_width; ++i) EXPECT_EQ(o.get(i), clean.o.get(i));
}

TEST(Attention, RefusesMissingKvHeadsPartialSequencesAndSmallWorkspaces) {
  AttentionShape shape{.seq_len = 4, .heads = 2, .kv_heads = 2, .head_dim = 2};
  const Array q(DType::kF32, {8, 4}), kv(DType::kF32, {8, 8});
  Array o(DType::kF32, {8, 4}), lse(DType::kF32, {8, 2});
  const int64_t bytes = workspace::attention(DType::kF32, 4, 2, 1);
  Rig rig(1, bytes), small(1, bytes - 1);
  EXPECT_NO_THROW(attention(rig, q, kv, o, lse, shape));
  EXPECT_THROW(attention(small, q, kv, o, lse, shape), InternalError);
  Rig small_grad(1, workspace::attention_grad(DType::kF32, 4, 2, 1) - 1);
  Array dq = q, dkv = kv;
  EXPECT_THROW(attention_grad(small_grad, q, kv, o, lse, o, dq, dkv, shape), InternalError);
  AttentionShape partial = shape;
  partial.seq_len = 3;
  EXPECT_THROW(attention(rig, q, kv, o, lse, partial), InternalError);
  AttentionShape missing = shape;
  missing.first_head = 1;
  EXPECT_THROW(attention(rig, q, kv, o, lse, missing), InternalError);
}

}  // namespace
}  // namespace tessera::kernels

// Dropout against plain references that ask for the mask element by element.
#include "kernels/testing/attention_reference.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

DropoutMask mask_of(double rate, DropoutSite site = DropoutSite::kMlpOutput) {
  return {rate, /*unit=*/2, site, /*first_sample=*/5};
}

constexpr StepParams kParams{.step = 3, .seed = 7};

class DropoutRig : public Rig {
 public:
  explicit DropoutRig(int threads = 1, int64_t workspace_bytes = 0)
      : Rig(threads, workspace_bytes) {
    params() = kParams;
  }
};

// The factor of one element, from the four draws that it shares.
double factor_at(const DropoutMask& mask, int64_t sample, int64_t position, int64_t head,
                 int64_t element) {
  double four[4];
  dropout_factors(with_key(mask, &kParams), {sample, position, head}, element / 4 * 4, 4, four);
  return four[element % 4];
}

TEST(DropoutKernel, MatchesAReferenceForEveryTypeShapeAndTeam) {
  Rng rng(1);
  struct Case {
    int64_t tokens, width, seq_len, first_token;
  };
  for (const Case& c : {Case{1, 1, 1, 0}, Case{7, 3, 7, 0}, Case{12, 65, 5, 0}, Case{9, 130, 6, 3},
                        Case{21, 16, 7, 14}}) {
    for (const DType type : kFloatTypes) {
      Array x(type, {c.tokens, c.width});
      x.randomise(rng);
      const DropoutMask mask = mask_of(0.3);
      std::vector<double> want;
      for (int64_t i = 0; i < x.size(); ++i) {
        const int64_t token = c.first_token + i / c.width;
        want.push_back(x.get(i) *
                       factor_at(mask, token / c.seq_len, token % c.seq_len, 0, i % c.width));
      }
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} x {} {}", c.tokens, c.width, name_of(type)));
        DropoutRig rig(threads);
        Array y(type, {c.tokens, c.width});
        dropout(rig, x, y, mask, {.seq_len = c.seq_len}, c.first_token);
        expect_close(y, want, tolerance(type));
        Array in_place = x;
        dropout(rig, in_place, in_place, mask, {.seq_len = c.seq_len}, c.first_token);
        EXPECT_TRUE(in_place.same_bits(y));
      }
    }
  }
}

TEST(DropoutKernel, PartsOfTheTokensDropWhatTheWholeDrops) {
  Rng rng(2);
  constexpr int64_t kTokens = 12, kWidth = 9, kSeqLen = 4;
  Array x(DType::kF32, {kTokens, kWidth});
  x.randomise(rng);
  Array whole(DType::kF32, {kTokens, kWidth});
  DropoutRig rig;
  dropout(rig, x, whole, mask_of(0.5), {.seq_len = kSeqLen}, 0);
  Array parts(DType::kF32, {kTokens, kWidth});
  for (int64_t first = 0; first < kTokens; first += 6) {
    const auto rows = [&](Array& a) {
      return Tensor(a.tensor().as<float>() + first * kWidth, DType::kF32, {6, kWidth});
    };
    Tensor y = rows(parts);
    dropout(rig, rows(x), y, mask_of(0.5), {.seq_len = kSeqLen}, first);
  }
  EXPECT_TRUE(parts.same_bits(whole));
}

// Context parallelism: each part holds two chunks of every sequence.
TEST(DropoutKernel, PartsOfTheSequencesDropWhatTheWholeDrops) {
  Rng rng(6);
  constexpr int64_t kSequences = 2, kWidth = 5, kSeqLen = 12;
  Array x(DType::kF64, {kSequences * kSeqLen, kWidth});
  x.randomise(rng);
  Array whole(DType::kF64, {kSequences * kSeqLen, kWidth});
  DropoutRig rig;
  dropout(rig, x, whole, mask_of(0.5), {.seq_len = kSeqLen}, 0);
  for (int64_t part = 0; part < 3; ++part) {
    const SequenceRows rows{kSeqLen, 3, part};
    const auto global = [&](int64_t i) {  // element of the whole that element i of the part is
      const int64_t row = i / kWidth;
      const int64_t token = row / rows.length() * kSeqLen + rows.position(row % rows.length());
      return token * kWidth + i % kWidth;
    };
    Array mine(DType::kF64, {kSequences * rows.length(), kWidth});
    for (int64_t i = 0; i < mine.size(); ++i) mine.set(i, x.get(global(i)));
    dropout(rig, mine, mine, mask_of(0.5), rows, 0);
    for (int64_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine.get(i), whole.get(global(i)));
  }
}

// ---- inside attention ----

using Case = AttentionCase;

const std::vector<Case> kCases = attention_cases({
    {2,
     {.seq_len = 13, .heads = 3, .kv_heads = 4, .head_dim = 6, .heads_per_kv = 2, .first_head = 2}},
});

AttentionShape dropped(AttentionShape shape, double rate) {
  shape.dropout = mask_of(rate, DropoutSite::kAttention);
  return shape;
}

struct Call {
  Array q, kv, d_o, o, lse, dq, dkv;
  AttentionShape shape;
  Call(DType type, const Case& c, const AttentionShape& s, Rng& rng)
      : q(type, {c.batch * s.seq_len, s.heads * s.head_dim}),
        kv(type, {c.batch * s.seq_len, 2 * s.kv_heads * s.head_dim}),
        d_o(type, {c.batch * s.seq_len, s.heads * s.head_dim}),
        o(type, {c.batch * s.seq_len, s.heads * s.head_dim}),
        lse(accumulate_type(type), {c.batch * s.seq_len, s.heads}),
        dq(type, {c.batch * s.seq_len, s.heads * s.head_dim}),
        dkv(type, {c.batch * s.seq_len, 2 * s.kv_heads * s.head_dim}),
        shape(s) {
    q.randomise(rng);
    kv.randomise(rng);
    d_o.randomise(rng);
  }
  void forward(int threads) {
    DropoutRig rig(threads, workspace::attention(q.type(), shape.seq_len, shape.head_dim, threads));
    attention(rig, q, kv, o, lse, shape);
  }
  void backward(int threads) {
    DropoutRig rig(threads,
                   workspace::attention_grad(q.type(), shape.seq_len, shape.head_dim, threads));
    attention_grad(rig, q, kv, o, lse, d_o, dq, dkv, shape);
  }
};

TEST(AttentionDropout, MatchesAReferenceForEveryTypeShapeAndTeam) {
  Rng rng(3);
  for (const Case& c : kCases) {
    for (const DType type : kFloatTypes) {
      Call run(type, c, dropped(c.shape, 0.4), rng);
      const AttentionForward want =
          attention_reference(run.q, run.kv, c, [&](int64_t b, int64_t i, int64_t head, int64_t j) {
            return factor_at(run.shape.dropout, b, i, head, j);
          });
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(fmt::format("S {} {}", c.shape.seq_len, name_of(type)));
        run.forward(threads);
        expect_close(run.o, want.o, tolerance(type));
      }
    }
  }
}

TEST(AttentionDropout, GradientsMatchFiniteDifferences) {
  Rng rng(4);
  for (const Case& c : kCases) {
    // One key has no gradient to compare with; many are slow.
    if (c.shape.seq_len == 1 || c.shape.seq_len > 40) continue;
    SCOPED_TRACE(fmt::format("S {}", c.shape.seq_len));
    Call run(DType::kF64, c, dropped(c.shape, 0.4), rng);
    run.forward(1);
    run.backward(2);
    const auto loss = [&] {
      run.forward(1);
      return dot(run.o, run.d_o);
    };
    expect_close(run.dq, numeric_gradient(run.q, loss), kNumericTolerance);
    expect_close(run.dkv, numeric_gradient(run.kv, loss), kNumericTolerance);
  }
}

TEST(AttentionDropout, ATinyRateChangesNothingElse) {
  Rng rng(5);
  const Case& c = kCases[2];
  Call plain(DType::kF64, c, c.shape, rng);
  plain.forward(1);
  plain.backward(1);
  Call tiny = plain;
  tiny.shape = dropped(c.shape, 1e-12);  // below what 32 bits can drop
  tiny.forward(1);
  tiny.backward(1);
  expect_close(tiny.o, plain.o.values(), 1e-11);
  expect_close(tiny.dq, plain.dq.values(), 1e-11);
  expect_close(tiny.dkv, plain.dkv.values(), 1e-11);
}

}  // namespace
}  // namespace tessera::kernels

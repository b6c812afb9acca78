// Attention over split sequences and windows, against the same attention over whole ones.
#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

struct Case {
  int64_t sequences, parts, window;
  AttentionShape shape;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t parts : {1, 2, 3, 4}) {
    for (const int64_t window : {0, 2, 5, 30}) {  // with 1 there is no gradient of q
      all.push_back(
          {2,
           parts,
           window,
           {.seq_len = 12 * parts, .heads = 4, .kv_heads = 2, .head_dim = 4, .heads_per_kv = 2}});
    }
  }
  // More rows than one block; a rank in the middle of the heads.
  all.push_back({1,
                 2,
                 0,
                 {.seq_len = 300,
                  .heads = 3,
                  .kv_heads = 4,
                  .head_dim = 6,
                  .heads_per_kv = 2,
                  .first_head = 2}});
  all.push_back({1, 3, 70, {.seq_len = 306, .heads = 1, .kv_heads = 1, .head_dim = 8}});
  return all;
}

std::string text_of(const Case& c, DType type) {
  return fmt::format("S {} parts {} window {} {}", c.shape.seq_len, c.parts, c.window,
                     name_of(type));
}

int64_t grad_bytes(DType type, const AttentionShape& s, int threads) {
  return workspace::attention_grad(type, s.seq_len, s.head_dim, threads);
}

// The rows of `whole` that `rows` describes.
Array take(const Array& whole, const SequenceRows& rows, int64_t sequences) {
  const int64_t width = whole.tensor().dim(1);
  Array part(whole.type(), {sequences * rows.length(), width});
  for (int64_t b = 0; b < sequences; ++b) {
    for (int64_t c = 0; c < rows.num_chunks(); ++c) {
      for (int64_t i = 0; i < rows.chunk_len(); ++i) {
        const int64_t from = b * rows.seq_len + rows.first_position(c) + i;
        const int64_t to = rows.first_row(c, b, sequences) + i;
        for (int64_t d = 0; d < width; ++d) {
          part.set(to * width + d, whole.get(from * width + d));
        }
      }
    }
  }
  return part;
}

struct Whole {
  Array q, kv, d_o, o, lse, dq, dkv;
  Whole(DType type, const Case& c, Rng& rng)
      : q(type, {c.sequences * c.shape.seq_len, c.shape.heads * c.shape.head_dim}),
        kv(type, {c.sequences * c.shape.seq_len, 2 * c.shape.kv_heads * c.shape.head_dim}),
        d_o(q),
        o(q),
        lse(accumulate_type(type), {c.sequences * c.shape.seq_len, c.shape.heads}),
        dq(q),
        dkv(kv) {
    q.randomise(rng);
    kv.randomise(rng);
    d_o.randomise(rng);
    run(c, 1);
  }
  void run(const Case& c, int threads) {
    AttentionShape shape = c.shape;
    shape.window = c.window;
    Rig rig(threads, grad_bytes(q.type(), shape, threads));
    attention(rig, q, kv, o, lse, shape);
    attention_grad(rig, q, kv, o, lse, d_o, dq, dkv, shape);
  }
};

AttentionShape split_shape(const Case& c, int64_t q_part, int64_t kv_part) {
  AttentionShape shape = c.shape;
  shape.window = c.window;
  shape.parts = c.parts;
  shape.q_part = q_part;
  shape.kv_part = kv_part;
  return shape;
}

double loss_tolerance(DType type) { return 4 * tolerance(type); }

TEST(AttentionWindow, MatchesAMaskedReference) {
  Rng rng(1);
  for (const Case& c : cases()) {
    const AttentionShape& s = c.shape;
    const Whole whole(DType::kF64, c, rng);
    const int64_t width = s.heads * s.head_dim, kv_width = 2 * s.kv_heads * s.head_dim;
    std::vector<double> want(static_cast<size_t>(whole.o.size()));
    for (int64_t b = 0; b < c.sequences; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t g = (s.first_head + h) / s.heads_per_kv;
        for (int64_t i = 0; i < s.seq_len; ++i) {
          const int64_t row = b * s.seq_len + i;
          double sum = 0;
          for (int64_t j = c.window > 0 ? std::max<int64_t>(0, i - c.window + 1) : 0; j <= i; ++j) {
            const int64_t key = (b * s.seq_len + j) * kv_width + g * s.head_dim;
            double score = 0;
            for (int64_t d = 0; d < s.head_dim; ++d) {
              score += whole.q.get(row * width + h * s.head_dim + d) * whole.kv.get(key + d);
            }
            const double weight = std::exp(score / std::sqrt(static_cast<double>(s.head_dim)));
            sum += weight;
            for (int64_t d = 0; d < s.head_dim; ++d) {
              want[static_cast<size_t>(row * width + h * s.head_dim + d)] +=
                  weight * whole.kv.get(key + s.kv_heads * s.head_dim + d);
            }
          }
          for (int64_t d = 0; d < s.head_dim; ++d) {
            want[static_cast<size_t>(row * width + h * s.head_dim + d)] /= sum;
          }
        }
      }
    }
    SCOPED_TRACE(text_of(c, DType::kF64));
    expect_close(whole.o, want, tolerance(DType::kF64));
  }
}

TEST(AttentionWindow, GradientsMatchFiniteDifferences) {
  Rng rng(2);
  const Case c{
      1, 1, 4, {.seq_len = 11, .heads = 2, .kv_heads = 1, .head_dim = 3, .heads_per_kv = 2}};
  Whole whole(DType::kF64, c, rng);
  const Array dq = whole.dq, dkv = whole.dkv;
  const auto loss = [&] {
    whole.run(c, 1);
    return dot(whole.o, whole.d_o);
  };
  expect_close(dq, numeric_gradient(whole.q, loss), kNumericTolerance);
  expect_close(dkv, numeric_gradient(whole.kv, loss), kNumericTolerance);
}

// All keys are here: gathered for the queries of one part, or of every part.
TEST(AttentionParts, AllKeysAtOnceMatchWholeSequences) {
  Rng rng(3);
  for (const Case& c : cases()) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(text_of(c, type));
      const Whole whole(type, c, rng);
      std::vector<double> dkv_sum(static_cast<size_t>(whole.kv.size()));
      for (int64_t part = SequenceRows::kAllParts; part < c.parts; ++part) {
        const AttentionShape shape = split_shape(c, part, SequenceRows::kAllParts);
        const Array q = take(whole.q, shape.q_rows(), c.sequences);
        const Array kv = take(whole.kv, shape.kv_rows(), c.sequences);
        const Array d_o = take(whole.d_o, shape.q_rows(), c.sequences);
        Array o = q, lse = take(whole.lse, shape.q_rows(), c.sequences), dq = q, dkv = kv;
        o.fill(std::nan(""));
        lse.fill(std::nan(""));
        Rig rig(2, grad_bytes(type, shape, 2));
        attention(rig, q, kv, o, lse, shape);
        expect_close(o, take(whole.o, shape.q_rows(), c.sequences).values(), tolerance(type));
        attention_grad(rig, q, kv, o, lse, d_o, dq, dkv, shape);
        expect_close(dq, take(whole.dq, shape.q_rows(), c.sequences).values(),
                     loss_tolerance(type));
        if (part == SequenceRows::kAllParts) {
          expect_close(dkv, take(whole.dkv, shape.kv_rows(), c.sequences).values(),
                       loss_tolerance(type));
          continue;
        }
        for (size_t i = 0; i < dkv_sum.size(); ++i) {
          dkv_sum[i] += dkv.get(static_cast<int64_t>(i));
        }
      }
      const SequenceRows all{c.shape.seq_len, c.parts, SequenceRows::kAllParts};
      expect_close(take(whole.dkv, all, c.sequences), dkv_sum, loss_tolerance(type));
    }
  }
}

// Keys come one part after the other, in any order, and what is known is merged.
TEST(AttentionParts, MergedPartsMatchWholeSequences) {
  Rng rng(4);
  for (const Case& c : cases()) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(text_of(c, type));
      const Whole whole(type, c, rng);
      const DType wide = accumulate_type(type);
      std::vector<std::vector<double>> dkv_sum(static_cast<size_t>(c.parts));
      for (int64_t part = 0; part < c.parts; ++part) {
        const SequenceRows rows = split_shape(c, part, part).q_rows();
        const Array q = take(whole.q, rows, c.sequences);
        const Array d_o = take(whole.d_o, rows, c.sequences);
        Array o(wide, {q.tensor().dim(0), q.tensor().dim(1)});
        Array lse(wide, {q.tensor().dim(0), c.shape.heads}), dq = o;
        for (int64_t hop = 0; hop < c.parts; ++hop) {
          const AttentionShape shape = split_shape(c, part, (part + c.parts - hop) % c.parts);
          Rig rig(static_cast<int>(hop % 2) + 1, grad_bytes(type, shape, 2));
          const Array kv = take(whole.kv, shape.kv_rows(), c.sequences);
          attention_part(rig, q, kv, hop == 0 ? Tensor() : o.tensor(),
                         hop == 0 ? Tensor() : lse.tensor(), o, lse, shape);
        }
        expect_close(o, take(whole.o, rows, c.sequences).values(), tolerance(type));
        expect_close(lse, take(whole.lse, rows, c.sequences).values(), tolerance(wide));
        const Array stored = convert(o, type);
        for (int64_t hop = 0; hop < c.parts; ++hop) {
          const int64_t from = (part + c.parts - hop) % c.parts;
          const AttentionShape shape = split_shape(c, part, from);
          Rig rig(2, grad_bytes(type, shape, 2));
          const Array kv = take(whole.kv, shape.kv_rows(), c.sequences);
          Array dkv(wide, {kv.tensor().dim(0), kv.tensor().dim(1)});
          attention_grad_part(rig, q, kv, stored, lse, d_o, hop == 0 ? Tensor() : dq.tensor(), dq,
                              dkv, shape);
          std::vector<double>& sum = dkv_sum[static_cast<size_t>(from)];
          sum.resize(static_cast<size_t>(dkv.size()));
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += dkv.get(static_cast<int64_t>(i));
        }
        expect_close(dq, take(whole.dq, rows, c.sequences).values(), loss_tolerance(type));
      }
      for (int64_t part = 0; part < c.parts; ++part) {
        const SequenceRows rows{c.shape.seq_len, c.parts, part};
        expect_close(take(whole.dkv, rows, c.sequences), dkv_sum[static_cast<size_t>(part)],
                     loss_tolerance(type));
      }
    }
  }
}

// Out of place, a query that sees nothing keeps what is known, or is empty.
TEST(AttentionParts, QueriesWithoutKeysKeepWhatIsKnown) {
  Rng rng(5);
  const Case c{1, 2, 0, {.seq_len = 8, .heads = 1, .kv_heads = 1, .head_dim = 2}};
  const AttentionShape shape = split_shape(c, 0, 1);  // queries 0 1 6 7, keys 2 3 4 5
  Array q(DType::kF32, {4, 2}), kv(DType::kF32, {4, 4}), known(DType::kF32, {4, 2}),
      known_lse(DType::kF32, {4, 1}), o(DType::kF32, {4, 2}), lse(DType::kF32, {4, 1});
  for (Array* x : {&q, &kv, &known, &known_lse}) x->randomise(rng);
  Rig rig(1, grad_bytes(DType::kF32, shape, 1));
  attention_part(rig, q, kv, {}, {}, o, lse, shape);
  for (const int64_t i : {0, 1, 2, 3}) EXPECT_EQ(o.get(i), 0);
  EXPECT_EQ(lse.get(1), -std::numeric_limits<double>::infinity());
  attention_part(rig, q, kv, known, known_lse, o, lse, shape);
  for (const int64_t i : {0, 1, 2, 3}) EXPECT_EQ(o.get(i), known.get(i));
  for (const int64_t i : {0, 1}) EXPECT_EQ(lse.get(i), known_lse.get(i));
  for (const int64_t i : {4, 5, 6, 7}) EXPECT_NE(o.get(i), known.get(i));
  Array dq(DType::kF32, {4, 2}), dkv(DType::kF32, {4, 4});
  attention_grad_part(rig, q, kv, known, lse, q, {}, dq, dkv, shape);
  for (const int64_t i : {0, 1, 2, 3}) EXPECT_EQ(dq.get(i), 0);
  EXPECT_EQ(first_nonfinite(dkv), -1);
}

TEST(AttentionParts, RefusesPartsThatDoNotDivide) {
  const Array q(DType::kF32, {4, 2}), kv(DType::kF32, {4, 4});
  Array o(DType::kF32, {4, 2}), lse(DType::kF32, {4, 1});
  AttentionShape shape{.seq_len = 8, .heads = 1, .kv_heads = 1, .head_dim = 2, .parts = 2};
  Rig rig(1, grad_bytes(DType::kF32, shape, 1));
  EXPECT_NO_THROW(attention(rig, q, kv, o, lse, shape));
  shape.seq_len = 6;
  EXPECT_THROW(attention(rig, q, kv, o, lse, shape), InternalError);
  shape.seq_len = 8;
  shape.kv_part = 2;
  EXPECT_THROW(attention(rig, q, kv, o, lse, shape), InternalError);
  shape.kv_part = SequenceRows::kAllParts;
  EXPECT_THROW(attention(rig, q, kv, o, lse, shape), InternalError) << "kv has one part's rows";
}

}  // namespace
}  // namespace tessera::kernels

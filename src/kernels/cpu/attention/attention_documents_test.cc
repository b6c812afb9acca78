// Attention that stays inside documents, against each document as a sequence of its own.
#include <numeric>

#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

struct Case {
  std::vector<int64_t> lengths;  // of the documents of one sequence
  AttentionShape shape;          // seq_len is their sum
};

std::vector<Case> cases() {
  std::vector<Case> all = {
      {{1}, {.heads = 1, .kv_heads = 1, .head_dim = 2}},
      {{9}, {.heads = 2, .kv_heads = 2, .head_dim = 3}},
      {{1, 1, 1}, {.heads = 2, .kv_heads = 2, .head_dim = 4}},
      {{5, 1, 40, 17}, {.heads = 4, .kv_heads = 2, .head_dim = 4, .heads_per_kv = 2}},
      {{130, 3, 70}, {.heads = 3, .kv_heads = 1, .head_dim = 16, .heads_per_kv = 3}},
      {{30, 50}, {.heads = 2, .kv_heads = 2, .head_dim = 8, .window = 7}}};
  for (Case& c : all) {
    c.shape.seq_len = std::accumulate(c.lengths.begin(), c.lengths.end(), int64_t{0});
  }
  return all;
}

std::vector<int32_t> starts_of(const Case& c, int64_t sequences) {
  std::vector<int32_t> starts;
  for (int64_t b = 0; b < sequences; ++b) {
    int64_t begin = 0;
    for (const int64_t length : c.lengths) {
      starts.insert(starts.end(), static_cast<size_t>(length), static_cast<int32_t>(begin));
      begin += length;
    }
  }
  return starts;
}

struct Attended {
  Array q, kv, d_o, o, lse, dq, dkv;
  Attended(DType type, int64_t tokens, const AttentionShape& s)
      : q(type, {tokens, s.heads * s.head_dim}),
        kv(type, {tokens, 2 * s.kv_heads * s.head_dim}),
        d_o(q),
        o(q),
        lse(accumulate_type(type), {tokens, s.heads}),
        dq(q),
        dkv(kv) {}
  void randomise(Rng& rng) {
    for (Array* x : {&q, &kv, &d_o}) x->randomise(rng);
  }
  void attend(const AttentionShape& s, int threads) {
    Rig rig(threads, workspace::attention_grad(q.type(), s.seq_len, s.head_dim, threads));
    attention(rig, q, kv, o, lse, s);
    attention_grad(rig, q, kv, o, lse, d_o, dq, dkv, s);
  }
};

// All rows of `to`, from those of `from` from the first on.
void copy_rows(const Array& from, int64_t first, Array& to) {
  const int64_t width = to.tensor().dim(1);
  for (int64_t i = 0; i < to.size(); ++i) to.set(i, from.get(first * width + i));
}
std::vector<double> rows_of(const Array& x, int64_t first, int64_t count) {
  const std::vector<double> all = x.values();
  const auto begin = all.begin() + first * x.tensor().dim(1);
  return {begin, begin + count * x.tensor().dim(1)};
}

TEST(AttentionDocuments, AreAsAloneForEveryTypeAndTeam) {
  constexpr int64_t kSequences = 2;
  Rng rng(1);
  for (const Case& c : cases()) {
    const std::vector<int32_t> starts = starts_of(c, kSequences);
    for (const DType type : kFloatTypes) {
      Attended whole(type, kSequences * c.shape.seq_len, c.shape);
      whole.randomise(rng);
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} documents, {} {}", c.lengths.size(), name_of(type), threads));
        AttentionShape shape = c.shape;
        shape.starts = starts.data();
        whole.attend(shape, threads);
        int64_t first = 0;
        for (int64_t b = 0; b < kSequences; ++b) {
          for (const int64_t length : c.lengths) {
            AttentionShape alone = c.shape;
            alone.seq_len = length;
            Attended one(type, length, alone);
            copy_rows(whole.q, first, one.q);
            copy_rows(whole.kv, first, one.kv);
            copy_rows(whole.d_o, first, one.d_o);
            one.attend(alone, 1);
            expect_close(one.o, rows_of(whole.o, first, length), tolerance(type));
            expect_close(one.lse, rows_of(whole.lse, first, length),
                         tolerance(accumulate_type(type)));
            expect_close(one.dq, rows_of(whole.dq, first, length), 4 * tolerance(type));
            expect_close(one.dkv, rows_of(whole.dkv, first, length), 4 * tolerance(type));
            first += length;
          }
        }
      }
    }
  }
}

TEST(AttentionDocuments, NothingComesOverTheirBorder) {
  Rng rng(2);
  const Case c = cases()[3];
  const std::vector<int32_t> starts = starts_of(c, 1);
  const int64_t border = c.lengths[0], tokens = c.shape.seq_len;
  for (const bool masked : {true, false}) {
    AttentionShape shape = c.shape;
    if (masked) shape.starts = starts.data();
    Attended run(DType::kF64, tokens, shape);
    run.randomise(rng);
    run.attend(shape, 1);
    const std::vector<double> clean = rows_of(run.o, border, tokens - border);
    for (int64_t i = 0; i < border * run.kv.tensor().dim(1); ++i) {
      run.kv.set(i, static_cast<double>(i % 7));
    }
    run.attend(shape, 1);
    EXPECT_EQ(rows_of(run.o, border, tokens - border) == clean, masked);
  }
}

}  // namespace
}  // namespace tessera::kernels

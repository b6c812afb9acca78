#include <algorithm>
#include <numeric>

#include "kernels/experts.h"
#include "kernels/testing/moe_layer.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

size_t at(int64_t i) { return static_cast<size_t>(i); }

std::vector<double> softmax(const Array& logits, int64_t t, int64_t experts) {
  std::vector<double> p;
  for (int64_t e = 0; e < experts; ++e) p.push_back(logits.get(t * experts + e));
  const double max = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& v : p) sum += v = std::exp(v - max);
  for (double& v : p) v /= sum;
  return p;
}

// As the definition says: probabilities of all, the k largest, divided by their sum.
struct Routed {
  std::vector<double> gates;
  std::vector<int> ids;
};
Routed route(const Array& logits, int64_t tokens, int64_t experts, int64_t k) {
  Routed all;
  for (int64_t t = 0; t < tokens; ++t) {
    const std::vector<double> p = softmax(logits, t, experts);
    std::vector<int> order(at(experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return p[static_cast<size_t>(a)] > p[static_cast<size_t>(b)];
    });
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) sum += p[static_cast<size_t>(order[at(j)])];
    for (int64_t j = 0; j < k; ++j) {
      all.ids.push_back(order[at(j)]);
      all.gates.push_back(p[static_cast<size_t>(order[at(j)])] / sum);
    }
  }
  return all;
}

struct Sizes : MoeSizes {
  int64_t inner;
};
const std::vector<Sizes> kSizes = {
    {{1, 1, 1, 1, 1}, 1}, {{7, 4, 2, 5, 2}, 3}, {{33, 6, 3, 17, 3}, 9}, {{50, 8, 2, 16, 8}, 24}};

int64_t workspace_of(const Sizes& s, DType type, int threads) {
  return std::max(workspace::dispatch_rows(s.experts),
                  workspace::linear(type, s.tokens * s.k, s.inner, s.width, threads));
}

TEST(Router, MatchesTheDefinition) {
  Rng rng(1);
  for (const Sizes& s : kSizes) {
    for (const DType type : kFloatTypes) {
      for (const int threads : {1, 3}) {
        Rig rig(threads);
        const Array logits = Array(type, {s.tokens, s.experts}).randomise(rng, 2);
        Array gates(accumulate_type(type), {s.tokens, s.k}), ids(DType::kI32, {s.tokens, s.k});
        router(rig, logits, gates, ids);
        const Routed want = route(logits, s.tokens, s.experts, s.k);
        for (int64_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids.get(i), want.ids[at(i)]);
        expect_close(gates, want.gates, tolerance(accumulate_type(type)));
      }
    }
  }
}

TEST(Router, TiesGoToTheLowestId) {
  Rig rig;
  Array logits(DType::kF32, {2, 4}), gates(DType::kF32, {2, 2}), ids(DType::kI32, {2, 2});
  for (int64_t e = 0; e < 4; ++e) logits.set(e, 1);
  for (int64_t e = 0; e < 4; ++e) logits.set(4 + e, e == 0 ? 0 : 3);
  router(rig, logits, gates, ids);
  EXPECT_EQ(ids.values(), (std::vector<double>{0, 1, 1, 2}));
  EXPECT_EQ(gates.values(), std::vector<double>(4, 0.5));
}

TEST(Router, AlwaysNamesDifferentExperts) {
  Rig rig;
  Array logits(DType::kF32, {1, 5}), gates(DType::kF32, {1, 3}), ids(DType::kI32, {1, 3});
  router(rig, logits, gates, ids);  // all NaN
  EXPECT_EQ(ids.values(), (std::vector<double>{0, 1, 2}));
}

TEST(Router, GradientMatchesFiniteDifferences) {
  Rng rng(2);
  for (const Sizes& s : kSizes) {
    Rig rig(2);
    Array logits = Array(DType::kF64, {s.tokens, s.experts}).randomise(rng);
    const Array dg = Array(DType::kF64, {s.tokens, s.k}).randomise(rng);
    Array gates(DType::kF64, {s.tokens, s.k}), ids(DType::kI32, {s.tokens, s.k});
    const auto want = numeric_gradient(logits, [&] {
      router(rig, logits, gates, ids);
      return dot(gates, dg);
    });
    router(rig, logits, gates, ids);
    Array dl(DType::kF64, {s.tokens, s.experts});
    router_grad(rig, dg, gates, ids, dl, false);
    expect_close(dl, want, kNumericTolerance);
    router_grad(rig, dg, gates, ids, dl, true);
    std::vector<double> twice = want;
    for (double& v : twice) v *= 2;
    expect_close(dl, twice, kNumericTolerance);
  }
}

TEST(RouterStats, CountsChoicesAndSumsProbabilitiesPerSequence) {
  Rng rng(3);
  const int64_t experts = 5, k = 2, sequences = 3, length = 4, tokens = 6, first = 5;
  for (const DType type : kFloatTypes) {
    Rig rig(2);
    const Array logits = Array(type, {tokens, experts}).randomise(rng);
    Array gates(accumulate_type(type), {tokens, k}), ids(DType::kI32, {tokens, k});
    router(rig, logits, gates, ids);
    Array stats(DType::kF64, {sequences, 2 * experts + 1});
    Array load = Array(DType::kF64, {experts}).fill(100);
    router_stats(rig, logits, ids, {first, length}, stats, load, false);
    std::vector<double> want(at(stats.size()), 0), loads(at(experts), 100);
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t row = (first + t) / length * (2 * experts + 1);
      const std::vector<double> p = softmax(logits, t, experts);
      for (int64_t e = 0; e < experts; ++e) want[at(row + experts + e)] += p[at(e)];
      for (int64_t j = 0; j < k; ++j) {
        const auto e = static_cast<int64_t>(ids.get(t * k + j));
        want[at(row + e)] += 1;
        loads[at(e)] += 1;
      }
    }
    expect_close(stats, want, tolerance(accumulate_type(type)));
    EXPECT_EQ(load.values(), loads);
    router_stats(rig, logits, ids, {first, length}, stats, load, true);
    for (double& v : want) v *= 2;
    expect_close(stats, want, tolerance(accumulate_type(type)));
  }
}

TEST(RouterStats, GradientMatchesFiniteDifferences) {
  Rng rng(4);
  const int64_t experts = 5, k = 2, sequences = 2, length = 4, tokens = 7;
  Rig rig(2);
  Array logits = Array(DType::kF64, {tokens, experts}).randomise(rng);
  const Array d = Array(DType::kF64, {sequences, 2 * experts + 1}).randomise(rng);
  Array gates(DType::kF64, {tokens, k}), ids(DType::kI32, {tokens, k});
  Array stats(DType::kF64, {sequences, 2 * experts + 1}),
      load = Array(DType::kF64, {experts}).fill(0);
  const auto want = numeric_gradient(logits, [&] {
    router(rig, logits, gates, ids);
    router_stats(rig, logits, ids, {1, length}, stats, load, false);
    return dot(stats, d);
  });
  Array dl(DType::kF64, {tokens, experts});
  router_stats_grad(rig, logits, d, {1, length}, dl, false);
  expect_close(dl, want, kNumericTolerance);
  Array sum = Array(DType::kF64, {tokens, experts}).fill(1);
  router_stats_grad(rig, logits, d, {1, length}, sum, true);
  for (int64_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum.get(i), dl.get(i) + 1, 1e-12);
}

// With what experts make of the rows, and what becomes of that.
struct Layer : MoeLayer {
  Array out, y;

  Layer(const Sizes& s, DType type, Rng& rng)
      : MoeLayer(s, type, rng),
        out(type, {1, s.peers, capacity, s.width}),
        y(type, {s.tokens, s.width}) {}
};

Tensor slice(const Array& a, int64_t index, int64_t parts, std::initializer_list<int64_t> dims) {
  const Tensor& t = a.tensor();
  return {t.as<std::byte>() + t.bytes() / parts * index, t.dtype, dims};
}

TEST(DispatchRows, SortsByPeerExpertAndToken) {
  Rng rng(5);
  for (const Sizes& s : kSizes) {
    for (const DType type : kFloatTypes) {
      for (const int threads : {1, 2, 3}) {
        Rig rig(threads, workspace_of(s, type, threads));
        Layer l(s, type, rng);
        dispatch_rows(rig, l.x, l.ids, l.rows, l.counts, l.slots);
        const int64_t local = s.experts / s.peers;
        std::vector<bool> used(at(s.peers * l.capacity), false);
        int64_t last_expert = -1, row = 0;
        for (int64_t e = 0; e < s.experts; ++e) {
          if (e / local != last_expert / local || e == 0) row = e / local * l.capacity;
          last_expert = e;
          int64_t count = 0;
          for (int64_t i = 0; i < s.tokens * s.k; ++i) {
            if (l.ids.get(i) != static_cast<double>(e)) continue;
            ASSERT_EQ(l.slots.get(i), static_cast<double>(row));
            for (int64_t c = 0; c < s.width; ++c) {
              ASSERT_EQ(l.rows.get(row * s.width + c), l.x.get(i / s.k * s.width + c));
            }
            used[at(row++)] = true;
            ++count;
          }
          ASSERT_EQ(l.counts.get(e), static_cast<double>(count));
        }
        for (int64_t r = 0; r < s.peers * l.capacity; ++r) {
          if (used[at(r)]) continue;
          for (int64_t c = 0; c < s.width; ++c) ASSERT_EQ(l.rows.get(r * s.width + c), 0.0);
        }
      }
    }
  }
}

TEST(DispatchRows, OverflowNamesTheExpertsTheRowsAndTheFix) {
  Rig rig(1, workspace::dispatch_rows(4));
  const Array x = Array(DType::kF32, {6, 3}).fill(1);
  Array ids = Array(DType::kI32, {6, 1}).fill(2), rows(DType::kF32, {1, 2, 4, 3});
  Array counts(DType::kI32, {1, 2, 2}), slots(DType::kI32, {6, 1});
  try {
    dispatch_rows(rig, x, ids, rows, counts, slots);
    FAIL() << "six rows fit into four";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("experts 2 to 3 for 6 rows"), std::string::npos) << text;
    EXPECT_NE(text.find("room for 4"), std::string::npos) << text;
    EXPECT_NE(text.find("moe_capacity = 2.0"), std::string::npos) << text;
  }
}

TEST(ExpertKernels, MatchADenseReferenceForwardAndBackward) {
  Rng rng(6);
  for (const Sizes& s : kSizes) {
    for (const DType type : kFloatTypes) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} tokens {} experts {} threads {}", s.tokens, s.experts,
                                 name_of(type), threads));
        Rig rig(threads, workspace_of(s, type, threads));
        Layer l(s, type, rng);
        dispatch_rows(rig, l.x, l.ids, l.rows, l.counts, l.slots);
        const Array d_out = Array(type, {1, s.peers, l.capacity, s.inner}).randomise(rng);
        Array y(type, {1, s.peers, l.capacity, s.inner}),
            dx(type, {1, s.peers, l.capacity, s.width});
        const Array w = Array(type, {s.experts, s.inner, s.width}).randomise(rng);
        Array dw(accumulate_type(type), {s.experts, s.inner, s.width});
        const int64_t local = s.experts / s.peers;
        for (int64_t p = 0; p < s.peers; ++p) {
          const Tensor rows = slice(l.rows, p, s.peers, {1, 1, l.capacity, s.width});
          const Tensor counts = slice(l.counts, p, s.peers, {1, 1, local});
          const Tensor wp = slice(w, p, s.peers, {local, s.inner, s.width});
          const Tensor dp = slice(d_out, p, s.peers, {1, 1, l.capacity, s.inner});
          Tensor yp = slice(y, p, s.peers, {1, 1, l.capacity, s.inner});
          Tensor dxp = slice(dx, p, s.peers, {1, 1, l.capacity, s.width});
          Tensor dwp = slice(dw, p, s.peers, {local, s.inner, s.width});
          expert_linear(rig, rows, wp, counts, yp);
          expert_linear_dx(rig, dp, wp, counts, dxp);
          expert_linear_dw(rig, dp, rows, counts, dwp, false);
        }
        std::vector<double> y_want(at(y.size()), 0), dx_want(at(dx.size()), 0),
            dw_want(at(dw.size()), 0);
        for (int64_t i = 0; i < s.tokens * s.k; ++i) {
          const auto row = static_cast<int64_t>(l.slots.get(i));
          const auto e = static_cast<int64_t>(l.ids.get(i));
          for (int64_t n = 0; n < s.inner; ++n) {
            for (int64_t c = 0; c < s.width; ++c) {
              const double weight = w.get((e * s.inner + n) * s.width + c);
              const double value = l.x.get(i / s.k * s.width + c);
              const double d = d_out.get(row * s.inner + n);
              y_want[at(row * s.inner + n)] += value * weight;
              dx_want[at(row * s.width + c)] += d * weight;
              dw_want[at((e * s.inner + n) * s.width + c)] += d * value;
            }
          }
        }
        expect_close(y, y_want, tolerance(type));
        expect_close(dx, dx_want, tolerance(type));
        expect_close(dw, dw_want, tolerance(accumulate_type(type)));
      }
    }
  }
}

// Blocks of several sources add up to one gradient; an expert without rows gets zero, or keeps
// what it has.
TEST(ExpertKernels, WeightGradientsAddUpOverBlocks) {
  Rng rng(7);
  const int64_t blocks = 3, local = 3, capacity = 4, in = 5, out = 2;
  for (const DType type : kFloatTypes) {
    Rig rig(2, workspace::linear(type, capacity, out, in, 2));
    const Array x = Array(type, {blocks, 1, capacity, in}).randomise(rng);
    const Array dy = Array(type, {blocks, 1, capacity, out}).randomise(rng);
    Array counts(DType::kI32, {blocks, 1, local});
    const std::vector<double> numbers = {4, 0, 0, 1, 0, 2, 0, 0, 4};  // block 0 is full
    for (int64_t i = 0; i < counts.size(); ++i) counts.set(i, numbers[at(i)]);
    std::vector<double> want(at(local * out * in), 0);
    for (int64_t b = 0; b < blocks; ++b) {
      int64_t row = b * capacity;
      for (int64_t e = 0; e < local; ++e) {
        for (int64_t r = 0; r < static_cast<int64_t>(counts.get(b * local + e)); ++r, ++row) {
          for (int64_t n = 0; n < out; ++n) {
            for (int64_t c = 0; c < in; ++c) {
              want[at((e * out + n) * in + c)] += dy.get(row * out + n) * x.get(row * in + c);
            }
          }
        }
      }
    }
    Array dw(accumulate_type(type), {local, out, in});
    expert_linear_dw(rig, dy, x, counts, dw, false);
    expect_close(dw, want, tolerance(accumulate_type(type)));
    Array sum = Array(accumulate_type(type), {local, out, in}).fill(1);
    expert_linear_dw(rig, dy, x, counts, sum, true);
    for (double& v : want) v += 1;
    expect_close(sum, want, tolerance(accumulate_type(type)));
  }
}

TEST(ExpertKernels, SwiGluIsTheDenseOneOnRowsInUseAndZeroElsewhere) {
  Rng rng(8);
  const int64_t blocks = 2, capacity = 5, width = 3;
  for (const DType type : kFloatTypes) {
    Rig rig(2);
    const Array gate_up = Array(type, {blocks, 1, capacity, 2 * width}).randomise(rng);
    const Array dh = Array(type, {blocks, 1, capacity, width}).randomise(rng);
    Array counts(DType::kI32, {blocks, 1, 2});
    const std::vector<double> numbers = {0, 3, 0, 0};
    for (int64_t i = 0; i < 4; ++i) counts.set(i, numbers[at(i)]);
    Array h(type, {blocks, 1, capacity, width}), in_place = gate_up;
    expert_swiglu(rig, gate_up, counts, h);
    expert_swiglu_grad(rig, dh, gate_up, counts, in_place);
    Array dense_h(type, {blocks * capacity, width}), dense_d(type, {blocks * capacity, 2 * width});
    const Tensor flat(gate_up.tensor().data, type, {blocks * capacity, 2 * width});
    swiglu(rig, flat, dense_h);
    swiglu_grad(rig, Tensor(dh.tensor().data, type, {blocks * capacity, width}), flat, dense_d);
    for (int64_t i = 0; i < h.size(); ++i) {
      EXPECT_EQ(h.get(i), i / width < 3 ? dense_h.get(i) : 0.0);
    }
    for (int64_t i = 0; i < in_place.size(); ++i) {
      EXPECT_EQ(in_place.get(i), i / (2 * width) < 3 ? dense_d.get(i) : 0.0);
    }
  }
}

TEST(CombineRows, WeighsAndSumsTheRowsOfAToken) {
  Rng rng(9);
  for (const Sizes& s : kSizes) {
    for (const DType type : kFloatTypes) {
      for (const int threads : {1, 3}) {
        Rig rig(threads, workspace_of(s, type, threads));
        Layer l(s, type, rng);
        dispatch_rows(rig, l.x, l.ids, l.rows, l.counts, l.slots);
        const int64_t num_rows = s.peers * l.capacity;
        l.out.randomise(rng);
        const Array dy = Array(type, {s.tokens, s.width}).randomise(rng);
        Array d_rows(type, {1, s.peers, l.capacity, s.width});
        Array d_gates(accumulate_type(type), {s.tokens, s.k}), dx(type, {s.tokens, s.width});
        combine_rows(rig, l.out, l.slots, l.gates, l.y);
        combine_rows_grad(rig, dy, l.out, l.slots, l.gates, d_rows, d_gates);
        dispatch_rows_grad(rig, l.out, l.slots, dx);
        std::vector<double> y(at(s.tokens * s.width), 0), rows(at(num_rows * s.width), 0);
        std::vector<double> gates(at(s.tokens * s.k), 0), sums(at(s.tokens * s.width), 0);
        for (int64_t i = 0; i < s.tokens * s.k; ++i) {
          const auto row = static_cast<int64_t>(l.slots.get(i));
          for (int64_t c = 0; c < s.width; ++c) {
            const int64_t token = i / s.k * s.width + c;
            y[at(token)] += l.gates.get(i) * l.out.get(row * s.width + c);
            sums[at(token)] += l.out.get(row * s.width + c);
            rows[at(row * s.width + c)] = l.gates.get(i) * dy.get(token);
            gates[at(i)] += dy.get(token) * l.out.get(row * s.width + c);
          }
        }
        expect_close(l.y, y, tolerance(type));
        expect_close(dx, sums, tolerance(type));
        expect_close(d_rows, rows, tolerance(type));
        expect_close(d_gates, gates, tolerance(accumulate_type(type)));
      }
    }
  }
}

// Straight from the definition, on probabilities and choices of all layers laid end to end.
TEST(Balance, MatchesTheDefinitionAndItsGradientFiniteDifferences) {
  Rng rng(10);
  Rig rig;
  const BalanceShape shape{.experts = 3, .layers = 2, .seq_len = 4, .group = 2, .coef = 0.7};
  const int64_t sequences = 5, columns = 7;  // groups of 2, 2 and 1
  Array totals = Array(DType::kF64, {sequences, columns}).randomise(rng);
  Array labels = Array(DType::kI32, {sequences * shape.seq_len}).fill(1);
  for (const int64_t masked : {0, 3, 8, 9, 10, 11, 17}) labels.set(masked, -100);
  Array counted(DType::kF64, {sequences, columns});
  balance_totals(rig, totals, labels, counted);
  const std::vector<double> unmasked = {2, 4, 0, 4, 3};
  for (int64_t s = 0; s < sequences; ++s) {
    EXPECT_EQ(counted.get(s * columns + 6), unmasked[at(s)]);
    for (int64_t c = 0; c < 6; ++c) {
      EXPECT_EQ(counted.get(s * columns + c), totals.get(s * columns + c));
    }
  }
  double want = 0;
  for (int64_t first = 0; first < sequences; first += 2) {
    const int64_t last = std::min<int64_t>(first + 2, sequences);
    const auto tokens = static_cast<double>((last - first) * 4 * 2);
    double labels_here = 0, aux = 0;
    for (int64_t s = first; s < last; ++s) labels_here += unmasked[at(s)];
    for (int64_t e = 0; e < 3; ++e) {
      double choices = 0, probability = 0;
      for (int64_t s = first; s < last; ++s) {
        choices += totals.get(s * columns + e);
        probability += totals.get(s * columns + 3 + e);
      }
      aux += 3 * (choices / tokens) * (probability / tokens);
    }
    want += 0.7 * labels_here * aux;
  }
  Array loss = Array(DType::kF64, {1}).fill(10);
  balance_loss(rig, counted, labels, sequences, shape, loss, true);
  EXPECT_NEAR(loss.get(0), 10 + want, 1e-12);
  // The shares of two ranks, one with two sequences and one with three, add up.
  double shares = 0;
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 2}, {2, 3}}) {
    BalanceShape share = shape;
    share.first_sequence = first;
    const Tensor mine(labels.tensor().as<int32_t>() + first * 4, DType::kI32, {count * 4});
    balance_loss(rig, counted, mine, count, share, loss, false);
    shares += loss.get(0);
  }
  EXPECT_NEAR(shares, want, 1e-12);
  Array d(DType::kF64, {sequences, columns});
  balance_grad(rig, counted, shape, d);
  const auto numeric = numeric_gradient(counted, [&] {
    balance_loss(rig, counted, labels, sequences, shape, loss, false);
    return loss.get(0);
  });
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t c = 0; c < columns; ++c) {
      // Choices have no gradient, although the loss depends on them.
      const double expected = c >= 3 && c < 6 ? numeric[at(s * columns + c)] : 0.0;
      EXPECT_NEAR(d.get(s * columns + c), expected, 1e-7);
    }
  }
}

TEST(ExpertKernels, RefuseWrongShapes) {
  Rig rig(1, 4096);
  const Array logits(DType::kF32, {4, 3});
  Array gates(DType::kF32, {4, 2}), ids(DType::kI32, {4, 2}), wrong(DType::kF32, {4, 4});
  EXPECT_THROW(router(rig, logits, wrong, ids), InternalError);
  EXPECT_NO_THROW(router(rig, logits, gates, ids));
  ids.fill(7);
  Array rows(DType::kF32, {1, 1, 8, 3}), counts(DType::kI32, {1, 1, 3}), slots(DType::kI32, {4, 2});
  EXPECT_THROW(dispatch_rows(rig, logits, ids, rows, counts, slots), InternalError);
  counts.fill(5);
  const Array w(DType::kF32, {3, 2, 3});
  Array y(DType::kF32, {1, 1, 8, 2});
  EXPECT_THROW(expert_linear(rig, rows, w, counts, y), InternalError) << "15 rows in a block of 8";
  counts.fill(2);
  EXPECT_NO_THROW(expert_linear(rig, rows, w, counts, y));
  const Array three_blocks(DType::kI32, {3, 1, 3});
  EXPECT_THROW(expert_linear(rig, rows, w, three_blocks, y), InternalError) << "8 rows in 3 blocks";
  Array narrow(DType::kF32, {1, 1, 8, 1});
  EXPECT_THROW(expert_linear(rig, rows, w, counts, narrow), InternalError);
  EXPECT_THROW(expert_swiglu(rig, y, counts, y), InternalError) << "half the columns";
  EXPECT_NO_THROW(expert_swiglu(rig, y, counts, narrow));
}

}  // namespace
}  // namespace tessera::kernels

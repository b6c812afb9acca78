#include "comm/testing/case_lists.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <set>
#include <tuple>

#include "base/dtype.h"

namespace tessera::testing {
namespace {

constexpr DType kDTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                             DType::kI32, DType::kI64, DType::kU8};

// Whether communicators run it at all: a mean of integers is refused, a lone rank has no peer.
bool is_valid(const SuiteTraits& traits, const SuiteCase& c, int size) {
  if (c.op == CollectiveOp::kReceive) return false;
  if (c.op == CollectiveOp::kSend && (size == 1 || c.root == 0)) return false;
  if (!has_root(c.op) && c.op != CollectiveOp::kSend && c.root != 0) return false;
  if (!reduces(c.op) && c.reduce != ReduceOp::kSum) return false;
  if (c.reduce == ReduceOp::kMean && !is_floating(c.dtype)) return false;
  if (c.in_place && !allows_in_place(c.op)) return false;
  if (c.op == CollectiveOp::kBarrier && (c.dtype != DType::kF32 || c.count != 0)) return false;
  return c.algorithm == Algorithm::kAuto || traits.offers(c, size);
}

uint32_t seed_of(size_t index, int size) {
  return static_cast<uint32_t>(mix(index, static_cast<uint64_t>(size)));
}

// Sets what does not matter for the op to one value.
SuiteCase normalised(SuiteCase c, int size) {
  const bool exchange = c.op == CollectiveOp::kSend;
  if (!has_root(c.op) && !exchange) c.root = 0;
  if (exchange && c.root == 0) c.root = size - 1;
  if (!reduces(c.op)) c.reduce = ReduceOp::kSum;
  if (!allows_in_place(c.op)) c.in_place = false;
  if (c.op == CollectiveOp::kBarrier) c.dtype = DType::kF32, c.count = 0;
  return c;
}

// What the full product leaves open.
SuiteCase with_seed(SuiteCase c, uint32_t seed) {
  c.seed = seed;
  c.place = static_cast<BufferPlace>(seed / 3 % kNumBufferPlaces);
  c.blocking = seed / 16 % 2 == 0;
  return c;
}

// The digits of a number in mixed bases: walks a product of parameters without nested loops.
class Digits {
 public:
  explicit Digits(int number) : rest_(number) {}
  int next(int base) {
    const int digit = rest_ % base;
    rest_ /= base;
    return digit;
  }

 private:
  int rest_;
};

constexpr int64_t kTinyCounts[] = {0, 1, 7};

// Every algorithm of every op at every root; types and reductions in turn.
void add_every_algorithm(const SuiteTraits& traits, int size, std::vector<SuiteCase>& cases) {
  const int product = kNumCollectiveOps * kNumAlgorithms * 3 * 2 * size;
  for (int i = 0; i < product; ++i) {
    Digits digits(i);
    SuiteCase c;
    c.op = static_cast<CollectiveOp>(digits.next(kNumCollectiveOps));
    c.algorithm = static_cast<Algorithm>(digits.next(kNumAlgorithms));
    c.count = kTinyCounts[digits.next(3)];
    c.in_place = digits.next(2) == 1;
    c.root = digits.next(size);
    if (c.op != CollectiveOp::kBarrier) c.dtype = kDTypes[cases.size() % kNumDTypes];
    if (reduces(c.op)) c.reduce = static_cast<ReduceOp>(cases.size() / 2 % kNumReduceOps);
    if (!is_floating(c.dtype) && c.reduce == ReduceOp::kMean) c.reduce = ReduceOp::kMax;
    if (is_valid(traits, c, size)) cases.push_back(with_seed(c, seed_of(cases.size(), size)));
  }
}

// Every reduction of every type; algorithms and roots in turn.
void add_every_type(const SuiteTraits& traits, int size, std::vector<SuiteCase>& cases) {
  const int product = kNumCollectiveOps * kNumReduceOps * kNumDTypes * 3 * 2;
  for (int i = 0; i < product; ++i) {
    Digits digits(i);
    SuiteCase c;
    c.op = static_cast<CollectiveOp>(digits.next(kNumCollectiveOps));
    c.reduce = static_cast<ReduceOp>(digits.next(kNumReduceOps));
    c.dtype = kDTypes[digits.next(kNumDTypes)];
    c.count = kTinyCounts[digits.next(3)];
    c.in_place = digits.next(2) == 1;
    const bool matters = has_root(c.op) || c.op == CollectiveOp::kSend;
    c.root = matters ? static_cast<int>(cases.size() % static_cast<size_t>(size)) : 0;
    c.algorithm = static_cast<Algorithm>(cases.size() % kNumAlgorithms);
    if (!is_valid(traits, c, size)) c.algorithm = Algorithm::kAuto;
    if (is_valid(traits, c, size)) cases.push_back(with_seed(c, seed_of(cases.size(), size)));
  }
}

// The parameters of a case as small numbers, of which each is to meet each of the others.
constexpr size_t kNumParameters = 9;
using Levels = std::array<int, kNumParameters>;

Levels levels_of(const SuiteCase& c) {
  return {static_cast<int>(c.op),
          static_cast<int>(c.reduce),
          static_cast<int>(c.dtype),
          static_cast<int>(c.algorithm),
          static_cast<int>(c.count % 64),  // tells one size from another
          c.root,
          c.in_place ? 1 : 0,
          c.blocking ? 1 : 0,
          static_cast<int>(c.place)};
}

class PairCoverage {
 public:
  // How many pairs of levels no case before had.
  [[nodiscard]] int gain(const SuiteCase& c) const {
    int fresh = 0;
    for_each_pair(c, [&](const Pair& pair) { fresh += seen_.contains(pair) ? 0 : 1; });
    return fresh;
  }
  void add(const SuiteCase& c) {
    for_each_pair(c, [&](const Pair& pair) { seen_.insert(pair); });
  }

 private:
  using Pair = std::tuple<size_t, int, size_t, int>;

  template <typename F>
  static void for_each_pair(const SuiteCase& c, const F& f) {
    const Levels levels = levels_of(c);
    for (size_t a = 0; a < kNumParameters; ++a) {
      for (size_t b = a + 1; b < kNumParameters; ++b) f(Pair(a, levels[a], b, levels[b]));
    }
  }

  std::set<Pair> seen_;
};

// Draws valid cases; `count_of` gives the number of elements.
class CaseSource {
 public:
  CaseSource(const SuiteTraits& traits, int size, uint32_t seed)
      : traits_(traits), size_(size), random_(seed) {}

  template <typename F>
  SuiteCase draw(const F& count_of) {
    for (;;) {
      SuiteCase c = {.op = static_cast<CollectiveOp>(below(kNumCollectiveOps)),
                     .reduce = static_cast<ReduceOp>(below(kNumReduceOps)),
                     .dtype = kDTypes[below(kNumDTypes)],
                     .algorithm = static_cast<Algorithm>(below(kNumAlgorithms)),
                     .root = static_cast<int>(below(static_cast<uint32_t>(size_))),
                     .in_place = below(2) == 0,
                     .blocking = below(2) == 0,
                     .place = static_cast<BufferPlace>(below(kNumBufferPlaces)),
                     .seed = static_cast<uint32_t>(random_())};
      c.count = count_of(c, random_);
      c = normalised(c, size_);
      if (is_valid(traits_, c, size_)) return c;
    }
  }

 private:
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_()) % bound; }

  const SuiteTraits& traits_;
  int size_;
  std::mt19937 random_;
};

// How many times `count` elements the longer buffer of a call has.
int num_blocks(CollectiveOp op, int size) {
  const SuiteCase one = {.op = op, .count = 1};
  if (op == CollectiveOp::kAllToAllV) return size;
  const int64_t root_has = std::max(input_count(one, 0, size), output_count(one, 0, size));
  return std::max(1, static_cast<int>(root_has));
}

// Draws until nothing new has come for long.
template <typename F>
std::vector<SuiteCase> pairwise_cases(const SuiteTraits& traits, int size, const F& count_of) {
  constexpr int kDrawsPerCase = 20;
  constexpr int kFruitlessRounds = 10;
  CaseSource source(traits, size, /*seed=*/static_cast<uint32_t>(size));
  PairCoverage coverage;
  std::vector<SuiteCase> cases;
  for (int fruitless = 0; fruitless < kFruitlessRounds;) {
    SuiteCase best;
    int best_gain = 0;
    for (int draw = 0; draw < kDrawsPerCase; ++draw) {
      const SuiteCase c = source.draw(count_of);
      const int gain = coverage.gain(c);
      if (gain > best_gain) best = c, best_gain = gain;
    }
    fruitless = best_gain == 0 ? fruitless + 1 : 0;
    if (best_gain == 0) continue;
    coverage.add(best);
    cases.push_back(best);
  }
  return cases;
}

}  // namespace

std::vector<SuiteCase> tiny_cases(const SuiteTraits& traits, int size) {
  std::vector<SuiteCase> cases;
  add_every_algorithm(traits, size, cases);
  add_every_type(traits, size, cases);
  return cases;
}

std::vector<SuiteCase> middle_cases(const SuiteTraits& traits, int size) {
  return pairwise_cases(traits, size, [](const SuiteCase& c, std::mt19937& random) {
    return 4096 / size_bytes(c.dtype) + static_cast<int64_t>(random() % 3) - 1;
  });
}

std::vector<SuiteCase> large_cases(const SuiteTraits& traits, int size) {
  return pairwise_cases(traits, size, [&](const SuiteCase& c, std::mt19937&) {
    return (1 << 20) / size_bytes(c.dtype) / num_blocks(c.op, size) + 3;
  });
}

std::vector<SuiteCase> special_cases(const SuiteTraits& traits, int size) {
  constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter,
                                   CollectiveOp::kReduce};
  std::vector<SuiteCase> cases;
  for (int i = 0; i < 3 * kNumReduceOps * kNumAlgorithms * kNumDTypes; ++i) {
    Digits digits(i);
    SuiteCase c = {.count = 301, .values = ValueKind::kSpecial};
    c.op = kOps[digits.next(3)];
    c.reduce = static_cast<ReduceOp>(digits.next(kNumReduceOps));
    c.algorithm = static_cast<Algorithm>(digits.next(kNumAlgorithms));
    c.dtype = kDTypes[digits.next(kNumDTypes)];
    const bool exact = sums_in_order(c) || !is_floating(c.dtype);
    if (!exact || !is_valid(traits, c, size)) continue;
    cases.push_back(with_seed(c, seed_of(cases.size(), size)));
  }
  return cases;
}

std::vector<SuiteCase> random_cases(const SuiteTraits& traits, int size, int num_cases,
                                    int64_t most, uint32_t seed) {
  CaseSource source(traits, size, seed);
  std::vector<SuiteCase> cases;
  for (int i = 0; i < num_cases; ++i) {
    cases.push_back(source.draw([&](const SuiteCase&, std::mt19937& random) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
    }));
  }
  return cases;
}

}  // namespace tessera::testing

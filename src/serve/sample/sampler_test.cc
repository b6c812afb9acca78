#include "serve/sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "base/error.h"
#include "base/philox.h"
#include "base/testing/message_of.h"
#include "base/testing/share.h"

namespace tessera::serve {
namespace {

using tessera::testing::message_of;

RowSampling row_of(const Sampling& how, uint32_t choice = 0, int64_t position = 0) {
  return {.how = std::make_shared<const Sampling>(how), .choice = choice, .position = position};
}

// The noise of a token as draw.h says it, without leaving any out.
double noise_of(const RowSampling& by, int32_t token) {
  const auto place = static_cast<uint64_t>(by.position);
  const auto bits = [&](uint32_t half) {
    const auto block =
        philox({static_cast<uint32_t>(token) / 4, by.choice, static_cast<uint32_t>(place),
                static_cast<uint32_t>(place >> 32) * 2 + half},
               {static_cast<uint32_t>(by.how->seed), static_cast<uint32_t>(by.how->seed >> 32)});
    return static_cast<double>(block[static_cast<size_t>(token) % 4]);
  };
  const double w = (bits(0) * 0x1p32 + bits(1) + 0.5) * 0x1p-64;
  return -std::log(-std::log1p(-std::min(w, 1 - 0x1p-53)));
}

struct Reference {
  std::vector<int32_t> order;    // what is kept, the likeliest first
  std::vector<double> logits;    // of all, after temperature
  bool near_the_border = false;  // a sum is so close to top_p that its rounding decides
};

// Sorts, and adds up along the sorted list.
Reference reference_of(std::vector<double> x, const RowSampling& by) {
  const Sampling& how = *by.how;
  for (const auto& [token, bias] : how.logit_bias) x[static_cast<size_t>(token)] += bias;
  for (const TokenCount& seen : by.counts) {
    double& value = x[static_cast<size_t>(seen.token)];
    if (how.repetition_penalty != 1) {
      value = value > 0 ? value / how.repetition_penalty : value * how.repetition_penalty;
    }
    if (seen.in_answer > 0) {
      value -= how.presence_penalty + how.frequency_penalty * seen.in_answer;
    }
  }
  Reference reference;
  for (size_t i = 0; i < x.size(); ++i) {
    if (by.allowed.empty() || (by.allowed[i / 32] >> (i % 32) & 1) != 0) {
      reference.order.push_back(static_cast<int32_t>(i));
    }
  }
  const auto value = [&](int32_t id) { return x[static_cast<size_t>(id)]; };
  std::sort(reference.order.begin(), reference.order.end(), [&](int32_t a, int32_t b) {
    return value(a) > value(b) || (value(a) == value(b) && a < b);
  });
  std::vector<int32_t>& order = reference.order;
  if (how.temperature == 0) {
    order.resize(1);
    return reference;
  }
  const double most = value(order[0]);
  for (double& each : x) each = (each - most) / how.temperature;
  if (how.top_k > 0 && how.top_k < std::ssize(order)) order.resize(static_cast<size_t>(how.top_k));
  if (how.top_p < 1) {
    double all = 0;
    for (const int32_t id : order) all += std::exp(value(id));
    double sum = 0;
    size_t kept = 0;
    while (kept < order.size()) {
      sum += std::exp(value(order[kept++]));
      if (std::abs(sum - how.top_p * all) < 1e-9 * all) reference.near_the_border = true;
      if (sum >= how.top_p * all) break;
    }
    order.resize(kept);
  }
  std::erase_if(order, [&](int32_t id) {
    const double share = std::exp(value(id));
    if (how.min_p > 0 && std::abs(share - how.min_p) < 1e-9 && share != how.min_p) {
      reference.near_the_border = true;
    }
    return how.min_p > 0 && share < how.min_p;
  });
  reference.logits = std::move(x);
  return reference;
}

int32_t drawn_from(const Reference& reference, const RowSampling& by) {
  if (reference.logits.empty()) return reference.order[0];
  int32_t best = -1;
  double best_sum = -HUGE_VAL;
  for (const int32_t id : reference.order) {
    const double sum = reference.logits[static_cast<size_t>(id)] + noise_of(by, id);
    if (sum > best_sum || (sum == best_sum && id < best)) {
      best_sum = sum;
      best = id;
    }
  }
  return best;
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t roll(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine_);
  }
  bool one_in(int64_t n) { return roll(1, n) == 1; }
  double real(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(engine_);
  }

  // In steps of a quarter where there shall be ties.
  std::vector<double> logits(int64_t vocab) {
    const bool ties = one_in(2);
    const double width = one_in(4) ? 40 : 6;
    std::vector<double> row(static_cast<size_t>(vocab));
    for (double& x : row) {
      x = real(-width, width);
      if (ties) x = std::round(x * 4) / 4;
    }
    return row;
  }

  RowSampling row(int64_t vocab) {
    Sampling how;
    how.seed = static_cast<uint64_t>(roll(0, std::numeric_limits<int64_t>::max()));
    how.temperature = one_in(6) ? 0 : real(0.05, 3);
    if (one_in(2)) how.top_k = roll(1, vocab + 2);
    if (one_in(2)) how.top_p = real(0, 1);
    if (one_in(3)) how.min_p = real(0, 1);
    if (one_in(3)) how.presence_penalty = real(-2, 2);
    if (one_in(3)) how.frequency_penalty = real(-2, 2);
    if (one_in(3)) how.repetition_penalty = real(0.5, 2);
    for (int64_t n = one_in(3) ? roll(1, 5) : 0; n > 0; --n) {
      how.logit_bias.emplace_back(static_cast<int32_t>(roll(0, vocab - 1)), real(-9, 9));
    }
    RowSampling by = row_of(how, static_cast<uint32_t>(roll(0, 9)), roll(0, 1'000'000));
    if (how.has_penalties()) {
      std::vector<int32_t> ids(static_cast<size_t>(vocab));
      std::iota(ids.begin(), ids.end(), 0);
      std::shuffle(ids.begin(), ids.end(), engine_);
      for (int64_t i = 0; i < std::min<int64_t>(vocab, 12); ++i) {
        by.counts.push_back({ids[static_cast<size_t>(i)], static_cast<int32_t>(roll(0, 3))});
      }
    }
    if (one_in(4)) {
      by.allowed.resize(static_cast<size_t>((vocab + 31) / 32));
      for (uint32_t& word : by.allowed) word = static_cast<uint32_t>(roll(0, 0xffffffff));
      by.allowed[0] |= 1;
    }
    return by;
  }

 private:
  std::mt19937_64 engine_;
};

TEST(SamplerTest, EveryParameterChoosesAsASortedRowWould) {
  const tessera::testing::Share cases = tessera::testing::share_of(40'000, 20);
  int64_t unclear = 0;
  for (int64_t seed = cases.begin; seed < cases.end; ++seed) {
    Dice dice(static_cast<uint64_t>(seed));
    const int64_t vocab = dice.one_in(20) ? 1500 : dice.roll(1, 90);
    const std::vector<double> logits = dice.logits(vocab);
    const RowSampling by = dice.row(vocab);
    const Reference reference = reference_of(logits, by);
    if (reference.near_the_border) {
      ++unclear;
      continue;
    }
    const SampledToken sampled = sample(logits, by);
    ASSERT_TRUE(sampled.finite);
    ASSERT_EQ(sampled.token, drawn_from(reference, by)) << "seed " << seed;
  }
  EXPECT_LT(unclear, cases.size() / 20);
}

// What is kept, seen by drawing at many positions: all of it and nothing else.
TEST(SamplerTest, TiesGoToTheLowestId) {
  const std::vector<double> logits = {1, 3, 3, 2, 3, 3, 0};
  const auto drawn = [&](const Sampling& how) {
    std::map<int32_t, int> counts;
    for (int64_t position = 0; position < 400; ++position) {
      ++counts[sample(logits, row_of(how, 0, position)).token];
    }
    std::vector<int32_t> ids;
    for (const auto& [id, count] : counts) ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(drawn({.temperature = 0}), (Ids{1}));
  EXPECT_EQ(drawn({.top_k = 1}), (Ids{1}));
  EXPECT_EQ(drawn({.top_k = 2}), (Ids{1, 2}));
  EXPECT_EQ(drawn({.top_k = 3}), (Ids{1, 2, 4}));
  EXPECT_EQ(drawn({.top_k = 5}), (Ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(drawn({.top_p = 0}), (Ids{1}));
  EXPECT_EQ(drawn({.top_k = 4, .top_p = 0.5}), (Ids{1, 2}));
  EXPECT_EQ(drawn({.top_k = 4, .top_p = 0.51}), (Ids{1, 2, 4}));
  EXPECT_EQ(drawn({.top_p = 0.5, .min_p = 1}), (Ids{1, 2, 4}));
  EXPECT_EQ(drawn({.min_p = 1}), (Ids{1, 2, 4, 5}));
  EXPECT_EQ(drawn({.min_p = 0.36}), (Ids{1, 2, 3, 4, 5}));
}

TEST(SamplerTest, DrawsHaveTheSharesOfTheModel) {
  const std::vector<double> logits = {0.3, 2.1, -1, 0.3, 1.7, -4, 0, 2.1, 1.1, -0.6};
  const int64_t draws = tessera::testing::tries_all() ? 1'000'000 : 50'000;
  const std::vector<Sampling> all = {
      {}, {.temperature = 0.6}, {.temperature = 2.5, .top_k = 6}, {.top_p = 0.8}, {.min_p = 0.2}};
  for (size_t which = 0; which < all.size(); ++which) {
    RowSampling by = row_of(all[which]);
    const Reference reference = reference_of(logits, by);
    double sum = 0;
    for (const int32_t id : reference.order) {
      sum += std::exp(reference.logits[static_cast<size_t>(id)]);
    }
    std::vector<int64_t> counts(logits.size());
    for (by.position = 0; by.position < draws; ++by.position) {
      ++counts[static_cast<size_t>(sample(logits, by).token)];
    }
    int64_t expected_draws = 0;
    for (const int32_t id : reference.order) {
      const auto at = static_cast<size_t>(id);
      const double share = std::exp(reference.logits[at]) / sum;
      const auto n = static_cast<double>(draws);
      EXPECT_NEAR(static_cast<double>(counts[at]), n * share,
                  5 * std::sqrt(n * share * (1 - share)))
          << "token " << id << " of distribution " << which;
      expected_draws += counts[at];
    }
    EXPECT_EQ(expected_draws, draws) << "distribution " << which;
  }
}

TEST(SamplerTest, SeedChoiceAndPositionEachMakeAnotherDraw) {
  const std::vector<double> logits(5000, 0.0);
  const int32_t token = sample(logits, row_of({.seed = 7}, 3, 11)).token;
  EXPECT_EQ(sample(logits, row_of({.seed = 7}, 3, 11)).token, token);
  EXPECT_NE(sample(logits, row_of({.seed = 8}, 3, 11)).token, token);
  EXPECT_NE(sample(logits, row_of({.seed = 7 + (uint64_t{1} << 32)}, 3, 11)).token, token);
  EXPECT_NE(sample(logits, row_of({.seed = 7}, 4, 11)).token, token);
  EXPECT_NE(sample(logits, row_of({.seed = 7}, 3, 12)).token, token);
  EXPECT_NE(sample(logits, row_of({.seed = 7}, 3, 11 + (int64_t{1} << 32))).token, token);
}

TEST(SamplerTest, PartsOfTheVocabularyGiveTheSameToken) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Dice dice(seed);
    const int64_t vocab = dice.roll(4, 300);
    const std::vector<double> logits = dice.logits(vocab);
    const std::vector<float> narrow(logits.begin(), logits.end());
    RowSampling by = dice.row(vocab);
    Sampling how = *by.how;
    how.logprobs = 3;
    by.how = std::make_shared<const Sampling>(how);
    const SampledToken whole = sample(narrow, by);
    for (const int64_t tp : {2, 3, 4}) {
      std::vector<std::span<const float>> parts;
      const int64_t size = (vocab + tp - 1) / tp;
      for (int64_t at = 0; at < vocab; at += size) {
        parts.push_back(std::span(narrow).subspan(static_cast<size_t>(at),
                                                  static_cast<size_t>(std::min(size, vocab - at))));
      }
      const SampledToken sampled = sample(parts, by);
      ASSERT_EQ(sampled.token, whole.token) << "seed " << seed << ", tp " << tp;
      ASSERT_EQ(sampled.logprob, whole.logprob);
      ASSERT_EQ(sampled.top.size(), whole.top.size());
    }
  }
}

TEST(SamplerTest, LogProbabilitiesAreThoseOfTheModel) {
  const std::vector<double> logits = {1, 3, -2, 3, 0.5};
  double sum = 0;
  for (const double x : logits) sum += std::exp(x);
  const Sampling how = {.temperature = 0.3,
                        .top_k = 2,
                        .repetition_penalty = 1.7,
                        .logit_bias = {{2, 30}},
                        .logprobs = 3};
  RowSampling by = row_of(how);
  by.counts = {{1, 2}};
  const SampledToken sampled = sample(logits, by);
  EXPECT_EQ(sampled.token, 2);
  EXPECT_NEAR(sampled.logprob, -2 - std::log(sum), 1e-13);
  ASSERT_EQ(sampled.top.size(), 3U);
  const std::vector<int32_t> likeliest = {1, 3, 0};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sampled.top[i].token, likeliest[i]);
    EXPECT_NEAR(sampled.top[i].logprob, logits[static_cast<size_t>(likeliest[i])] - std::log(sum),
                1e-13);
  }
  EXPECT_TRUE(sample(logits, row_of({.logprobs = 0})).top.empty());
  EXPECT_LT(sample(logits, row_of({.logprobs = 0})).logprob, 0);
  EXPECT_EQ(sample(logits, row_of({.logprobs = 99})).top.size(), logits.size());
  EXPECT_EQ(sample(logits, row_of({})).logprob, 0);
}

TEST(SamplerTest, SaysWhereLogitsAreNotFinite) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (size_t at = 0; at < 21; ++at) {
      std::vector<double> logits(21, 0.5);
      logits[at] = bad;
      EXPECT_FALSE(sample(logits, row_of({})).finite);
      const std::vector<float> narrow(logits.begin(), logits.end());
      EXPECT_FALSE(sample(narrow, row_of({.temperature = 0})).finite);
    }
  }
  RowSampling nothing = row_of({});
  nothing.allowed = {0};
  EXPECT_FALSE(sample(std::vector<double>(21, 0.5), nothing).finite);
}

// Values of any size: what a bias of 1e30 asks for is chosen, what one of -1e30 forbids is not.
TEST(SamplerTest, HugeBiasesDecide) {
  const std::vector<double> logits = {5, 1, 2};
  for (const double temperature : {0.0, 0.01, 1.0, 50.0}) {
    for (int64_t position = 0; position < 50; ++position) {
      const Sampling forced = {.temperature = temperature, .logit_bias = {{1, 1e30}}};
      EXPECT_EQ(sample(logits, row_of(forced, 0, position)).token, 1);
      const Sampling forbidden = {.temperature = temperature,
                                  .logit_bias = {{0, -1e30}, {2, -1e30}}};
      EXPECT_EQ(sample(logits, row_of(forbidden, 0, position)).token, 1);
    }
  }
  EXPECT_EQ(sample(logits, row_of({.temperature = 1e-300})).token, 0);
}

TEST(SamplerTest, RefusesWhatTheVocabularyHasNot) {
  const std::vector<double> logits = {5, 1, 2};
  EXPECT_EQ(message_of<Error>([&] {
              sample(logits, row_of({.logit_bias = {{3, 1}}}));
            }),
            "logit_bias names the token 3, but the vocabulary has 3");
  RowSampling by = row_of({.presence_penalty = 1});
  by.counts = {{-1, 1}};
  EXPECT_EQ(message_of<Error>([&] { sample(logits, by); }),
            "a count names the token -1, but the vocabulary has 3");
  by = row_of({});
  by.allowed = {1, 1};
  EXPECT_EQ(message_of<Error>([&] { sample(logits, by); }),
            "the mask has 2 words; 3 tokens need 1");
}

// A row as wide as those of large models, where most tokens are left out early.
TEST(SamplerTest, WideRowsToo) {
  constexpr int64_t kVocab = 40'000;
  Dice dice(5);
  std::vector<double> logits(kVocab);
  for (double& x : logits) x = dice.real(-12, 12);
  for (const Sampling& how :
       {Sampling{}, Sampling{.temperature = 3}, Sampling{.temperature = 0.7, .top_p = 0.95},
        Sampling{.top_k = 20'000}, Sampling{.top_k = 40, .top_p = 0.9}}) {
    const RowSampling by = row_of(how, 1, 77);
    EXPECT_EQ(sample(logits, by).token, drawn_from(reference_of(logits, by), by));
  }
}

}  // namespace
}  // namespace tessera::serve

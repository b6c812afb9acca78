#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

std::vector<int64_t> epoch_order(const Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < sampler.samples_per_epoch(); ++i) {
    const int64_t start = sampler.sample_start(epoch * sampler.samples_per_epoch() + i);
    EXPECT_EQ(start % sampler.seq_len(), 0);
    order.push_back(start / sampler.seq_len());
  }
  return order;
}

TEST(SamplerTest, EachEpochVisitsEveryWindowExactlyOnce) {
  std::vector<int64_t> sizes(130);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (const int64_t large : {255, 256, 257, 1000, 4095, 4097, 20'011}) sizes.push_back(large);
  for (const int64_t windows : sizes) {
    const Sampler sampler(windows * 3 + 1, 3, /*seed=*/42);
    ASSERT_EQ(sampler.samples_per_epoch(), windows);
    for (const int64_t epoch : {0, 1, 5}) {
      std::vector<int64_t> order = epoch_order(sampler, epoch);
      std::ranges::sort(order);
      std::vector<int64_t> all(static_cast<size_t>(windows));
      std::iota(all.begin(), all.end(), 0);
      ASSERT_EQ(order, all) << windows << " windows, epoch " << epoch;
    }
  }
}

TEST(SamplerTest, OrderDependsOnSeedAndEpochAndIsShuffled) {
  const Sampler sampler(2001, 2, 1);
  const std::vector<int64_t> first = epoch_order(sampler, 0);
  EXPECT_NE(first, epoch_order(sampler, 1));
  EXPECT_NE(first, epoch_order(Sampler(2001, 2, 2), 0));
  EXPECT_EQ(first, epoch_order(Sampler(2001, 2, 1), 0));
  // Correlation with the unshuffled order: about 1/sqrt(1000) for a random permutation.
  double sum = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    sum += (static_cast<double>(i) - 499.5) * (static_cast<double>(first[i]) - 499.5);
  }
  EXPECT_LT(std::abs(sum / (1000.0 * 1000.0 * 1000.0 / 12.0)), 0.15);
}

// Every window should come first about equally often, for a size that is not a power of two.
TEST(SamplerTest, FirstWindowOfAnEpochIsUniform) {
  const Sampler sampler(12, 1, 3);  // 11 windows
  std::vector<int> counts(11);
  constexpr int kEpochs = 11'000;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    ++counts[static_cast<size_t>(sampler.sample_start(epoch * 11))];
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(SamplerTest, SamplesStayInsideTheTokensForEverySize) {
  for (int64_t seq_len = 1; seq_len <= 9; ++seq_len) {
    for (int64_t tokens = seq_len + 1; tokens <= 60; ++tokens) {
      const Sampler sampler(tokens, seq_len, 5);
      for (int64_t i = 0; i < 2 * sampler.samples_per_epoch(); ++i) {
        const int64_t start = sampler.sample_start(i);
        ASSERT_GE(start, 0);
        ASSERT_LT(start + seq_len, tokens);
      }
      ASSERT_GT((sampler.samples_per_epoch() + 1) * seq_len + 1, tokens) << "unused whole window";
    }
  }
}

TEST(SamplerTest, WorksForVeryLargeCorporaAndIndices) {
  const int64_t tokens = std::numeric_limits<int64_t>::max();
  const Sampler sampler(tokens, 1, 9);
  EXPECT_LT(sampler.sample_start(tokens - 1), tokens);
  const Sampler wide(tokens, tokens - 1, 9);
  EXPECT_EQ(wide.sample_start(tokens), 0);
}

TEST(SamplerTest, FillsTokensAndShiftedLabels) {
  const Corpus corpus = Corpus::from_text("abc", "abcdefghijk");
  const Sampler sampler(corpus.size(), 5, 1);
  ASSERT_EQ(sampler.samples_per_epoch(), 2);
  for (int64_t index = 0; index < 6; ++index) {
    std::vector<int32_t> tokens(5);
    std::vector<int32_t> labels(5);
    fill_sample(corpus, sampler, index, tokens, labels);
    const std::string expected = sampler.sample_start(index) == 0 ? "abcdef" : "fghijk";
    for (size_t t = 0; t < 5; ++t) {
      EXPECT_EQ(tokens[t], expected[t]);
      EXPECT_EQ(labels[t], expected[t + 1]);
    }
  }
}

TEST(SamplerTest, RefusesImpossibleArguments) {
  EXPECT_THROW(Sampler(5, 5, 1), InternalError);
  EXPECT_THROW(Sampler(5, 0, 1), InternalError);
  EXPECT_THROW((void)Sampler(6, 5, 1).sample_start(-1), InternalError);
  const Corpus corpus = Corpus::from_text("abc", "abcdefghijk");
  std::vector<int32_t> five(5);
  std::vector<int32_t> four(4);
  EXPECT_THROW(fill_sample(corpus, Sampler(11, 5, 1), 0, five, four), InternalError);
  EXPECT_THROW(fill_sample(corpus, Sampler(1100, 5, 1), 0, four, four), InternalError);
}

}  // namespace
}  // namespace tessera

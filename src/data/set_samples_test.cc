#include "data/set_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "data/documents.h"
#include "data/set/set_writer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class SetSamplesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("set_samples_") +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Tokens first, first + 1, ... in documents of five.
  std::shared_ptr<const TokenSet> make_set(const std::string& name, int32_t first, int32_t tokens) {
    SetDescription facts;
    facts.vocab_size = 30'000;
    SetWriter writer({SetFormat::kTessera, folder_ / name}, facts);
    for (int32_t t = 0; t < tokens; ++t) {
      const int32_t id = first + t;
      writer.append({&id, 1});
      if (t % 5 == 4) writer.end_document();
    }
    writer.finish();
    return std::make_shared<const TokenSet>(TokenSet::open(folder_ / name));
  }

  fs::path folder_;
};

std::vector<int32_t> sample_at(const SetSamples& samples, int64_t index, size_t seq_len) {
  std::vector<int32_t> tokens(seq_len), labels(seq_len);
  samples.fill(index, tokens, labels);
  for (size_t t = 0; t < seq_len; ++t) EXPECT_EQ(labels[t], tokens[t] + 1);
  return tokens;
}

TEST_F(SetSamplesTest, AnEpochHasEveryWindowOnceAndTheNextAnotherOrder) {
  const SetSamples samples({{make_set("a", 0, 1001), 1}}, 10, /*seed=*/3, 30'000);
  std::vector<std::vector<int32_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> starts;
    for (int64_t i = 0; i < 100; ++i) starts.push_back(sample_at(samples, epoch * 100 + i, 10)[0]);
    orders.push_back(starts);
    std::ranges::sort(starts);
    for (int32_t i = 0; i < 100; ++i) ASSERT_EQ(starts[static_cast<size_t>(i)], i * 10);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST_F(SetSamplesTest, AnySampleIsKnownWithoutThoseBeforeIt) {
  const auto make = [&] {
    return SetSamples({{make_set("a", 0, 1001), 0.7}, {make_set("b", 10'000, 305), 0.3}}, 10, 3,
                      30'000);
  };
  const SetSamples from_start = make();
  std::vector<std::vector<int32_t>> all;
  for (int64_t i = 0; i < 400; ++i) all.push_back(sample_at(from_start, i, 10));
  for (const int64_t k : {0, 1, 17, 250, 399}) {
    EXPECT_EQ(sample_at(make(), k, 10), all[static_cast<size_t>(k)]);
  }
}

TEST_F(SetSamplesTest, AMixtureHasEachSetsShareAndEachSetsEpochs) {
  const SetSamples samples({{make_set("a", 0, 1001), 3}, {make_set("b", 10'000, 201), 1}}, 10, 3,
                           30'000);
  std::vector<int32_t> of_b;
  for (int64_t n = 0; n < 400; ++n) {
    const int32_t first = sample_at(samples, n, 10)[0];
    if (first >= 10'000) of_b.push_back(first);
    EXPECT_LE(std::abs(static_cast<double>(of_b.size()) - static_cast<double>(n + 1) / 4), 1);
  }
  ASSERT_EQ(of_b.size(), 100U);
  for (size_t epoch = 0; epoch < 5; ++epoch) {
    const auto begin = of_b.begin() + static_cast<std::ptrdiff_t>(epoch * 20);
    EXPECT_EQ(std::set<int32_t>(begin, begin + 20).size(), 20U) << "epoch " << epoch;
  }
}

TEST_F(SetSamplesTest, RefusesSetsThatGiveNoSample) {
  EXPECT_THROW(SetSamples({{make_set("none", 0, 0), 1}}, 10, 1, 30'000), ConfigError);
  EXPECT_THROW(SetSamples({{make_set("short", 0, 10), 1}}, 10, 1, 30'000), ConfigError);
  EXPECT_NO_THROW(SetSamples({{make_set("enough", 0, 11), 1}}, 10, 1, 30'000));
}

TEST_F(SetSamplesTest, ADocumentBeginsAfterTheEndOfAnother) {
  const std::vector<int32_t> tokens = {4, 5, 1, 6, 1, 1, 7, 1};
  std::vector<int32_t> starts(tokens.size());
  find_document_starts(tokens, 1, starts);
  EXPECT_EQ(starts, (std::vector<int32_t>{0, 0, 0, 3, 3, 5, 6, 6}));
  find_document_starts(tokens, 9, starts);
  EXPECT_EQ(starts, std::vector<int32_t>(8, 0));
}

}  // namespace
}  // namespace tessera

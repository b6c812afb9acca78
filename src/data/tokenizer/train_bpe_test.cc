#include "data/tokenizer/train_bpe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "data/synth.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_file.h"

namespace tessera {
namespace {

TrainedBpe trained_on(const std::string& text, const TrainBpeOptions& options) {
  PieceCounts counts(options.split);
  counts.add(text);
  return train_bpe(options, counts);
}

TEST(TrainBpeTest, JoinsTheMostFrequentPairFirst) {
  TrainBpeOptions options;
  options.vocab_size = 257 + 3;
  // "ab" 5 times, "bc" 4 times, "xy" 4 times.
  const TrainedBpe trained = trained_on("abc abc abc abc ab xy xy xy xy", options);
  ASSERT_EQ(trained.tokens.size(), 260U);
  // The blank before a word is of the word: " a" occurs 4 times, "ab" 5.
  EXPECT_EQ(trained.tokens[257], "ab");
  EXPECT_EQ(trained.merges[0], (std::pair<int32_t, int32_t>{1 + 'a', 1 + 'b'}));
}

TEST(TrainBpeTest, CountsAreThoseOfCountingAnew) {
  TrainBpeOptions options;
  options.vocab_size = 400;
  const std::string text = synth_stories(3, 20'000) + "aaaa aaaaa abababab";
  const TrainedBpe trained = trained_on(text, options);
  // The slow way: every merge counts all pairs again.
  PieceCounts counts(options.split);
  counts.add(text);
  std::vector<std::pair<std::vector<int32_t>, int64_t>> words;
  for (const auto& [piece, count] : counts.sorted()) {
    std::vector<int32_t> ids;
    for (const char c : piece) ids.push_back(1 + static_cast<unsigned char>(c));
    words.emplace_back(ids, count);
  }
  for (size_t i = 0; i < trained.merges.size(); ++i) {
    std::map<std::pair<int32_t, int32_t>, int64_t> pairs;
    for (const auto& [ids, count] : words) {
      for (size_t k = 0; k + 1 < ids.size(); ++k) pairs[{ids[k], ids[k + 1]}] += count;
    }
    const int64_t most = std::max_element(pairs.begin(), pairs.end(), [](auto& a, auto& b) {
                           return a.second < b.second;
                         })->second;
    ASSERT_EQ(pairs[trained.merges[i]], most) << "merge " << i;
    for (auto& [ids, count] : words) {
      std::vector<int32_t> joined;
      for (size_t k = 0; k < ids.size(); ++k) {
        const bool here = k + 1 < ids.size() && ids[k] == trained.merges[i].first &&
                          ids[k + 1] == trained.merges[i].second;
        joined.push_back(here ? static_cast<int32_t>(257 + i) : ids[k]);
        if (here) ++k;
      }
      ids = joined;
    }
  }
}

TEST(TrainBpeTest, TextsComeBackFromTheirTokens) {
  const std::string text = synth_stories(1, 60'000);
  for (const KnownSplit split : {KnownSplit::kGpt2, KnownSplit::kLlama3, KnownSplit::kQwen2}) {
    TrainBpeOptions options;
    options.vocab_size = 1000;
    options.split = split;
    const TrainedBpe trained = trained_on(text, options);
    EXPECT_EQ(trained.tokens.size(), 1000U);
    const Tokenizer tokenizer = Tokenizer::parse(tokenizer_json(trained, split), "trained");
    EXPECT_EQ(tokenizer.vocab_size(), 1000);
    EXPECT_EQ(tokenizer.id_of("<|endoftext|>"), 0);
    TokenEncoder encoder(tokenizer);
    for (const std::string_view one :
         {std::string_view(text), std::string_view("n\xC3\xA9w \t\x01")}) {
      std::vector<int32_t> ids;
      encoder.encode(one, true, ids);
      EXPECT_EQ(tokenizer.decode(ids, false), one);
      EXPECT_LE(ids.size(), one.size());
    }
    std::vector<int32_t> ids;
    encoder.encode(text, true, ids);
    EXPECT_LT(ids.size(), text.size() / 2);
  }
}

TEST(TrainBpeTest, TheSameTextGivesTheSameFile) {
  const std::string text = synth_stories(2, 30'000);
  const TrainBpeOptions options;
  EXPECT_EQ(tokenizer_json(trained_on(text, options), options.split),
            tokenizer_json(trained_on(text, options), options.split));
}

TEST(TrainBpeTest, StopsWhereNothingRepeats) {
  const TrainedBpe trained = trained_on("abcdef", TrainBpeOptions());
  EXPECT_EQ(trained.tokens.size(), 257U);
}

// One piece of many kilobytes: it is learned from in parts.
TEST(TrainBpeTest, ATextWithoutBlanksIsLearnedFromToo) {
  std::string text;
  for (int i = 0; i < 4000; ++i)
    text += i * i % 7 < 3 ? "abra" : i % 2 == 0 ? "cad" : "\xE6\x97\xA5";
  TrainBpeOptions options;
  options.vocab_size = 300;
  const TrainedBpe trained = trained_on(text, options);
  EXPECT_EQ(trained.tokens.size(), 300U);
  EXPECT_EQ(std::count(trained.tokens.begin(), trained.tokens.end(), "abra"), 1);
  EXPECT_EQ(std::count(trained.tokens.begin(), trained.tokens.end(), "\xE6\x97\xA5"), 1);
}

TEST(TrainBpeTest, ASpecialTokenIsNotLearned) {
  TrainBpeOptions options;
  options.special_tokens = {"abab"};
  const TrainedBpe trained = trained_on("abab abab abab abab abab abab", options);
  EXPECT_EQ(std::count(trained.tokens.begin(), trained.tokens.end(), "abab"), 1);
  const Tokenizer tokenizer = Tokenizer::parse(tokenizer_json(trained, options.split), "trained");
  EXPECT_EQ(tokenizer.id_of("abab"), 0);
}

TEST(TrainBpeTest, RefusesAVocabularyWithoutRoomForBytes) {
  TrainBpeOptions options;
  options.vocab_size = 256;
  EXPECT_THROW(options.validate(), ConfigError);
  options.vocab_size = 257;
  options.validate();
  options.special_tokens = {"<a>", "<a>"};
  options.vocab_size = 300;
  EXPECT_THROW(options.validate(), ConfigError);
}

}  // namespace
}  // namespace tessera

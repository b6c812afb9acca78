// Windows give what a heap over the whole piece gives, for lists of merges that nobody would train
// too.
#include "data/tokenizer/model/merge_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

namespace tessera {
namespace {

struct RandomMerges {
  PairTable table;
  std::vector<MergeRule> rules;
  std::vector<int32_t> first;
  std::vector<std::string> texts;  // by id
};

// Tokens of a few letters; several merges may make one text, and with `shuffled` a merge may come
// before those that make what it joins.
RandomMerges random_merges(std::mt19937& random, bool shuffled) {
  RandomMerges merges;
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const size_t letters = 1 + below(4);
  for (size_t i = 0; i < letters; ++i) {
    merges.first.push_back(static_cast<int32_t>(i));
    merges.texts.emplace_back(1, static_cast<char>('a' + i));
  }
  const size_t count = below(60);
  for (size_t i = 0; i < count; ++i) {
    const size_t left = below(merges.texts.size());
    const size_t right = below(merges.texts.size());
    const std::string text = merges.texts[left] + merges.texts[right];
    if (text.size() > 24) continue;
    auto id = static_cast<size_t>(std::find(merges.texts.begin(), merges.texts.end(), text) -
                                  merges.texts.begin());
    if (id == merges.texts.size()) merges.texts.push_back(text);
    merges.rules.push_back(
        {static_cast<int32_t>(left), static_cast<int32_t>(right), static_cast<int32_t>(id)});
  }
  if (shuffled) std::shuffle(merges.rules.begin(), merges.rules.end(), random);
  merges.table.reserve(merges.rules.size());
  for (size_t i = 0; i < merges.rules.size(); ++i) {
    const MergeRule& rule = merges.rules[i];
    merges.table.insert(rule.left, rule.right, {static_cast<uint32_t>(i), rule.id});
  }
  return merges;
}

std::vector<ModelToken> random_symbols(std::mt19937& random, const RandomMerges& merges) {
  std::vector<ModelToken> symbols;
  const size_t count = 1 + random() % 400;
  const bool runs = random() % 3 == 0;
  const size_t period = 1 + random() % 5;
  for (size_t i = 0; i < count; ++i) {
    const size_t letter = random() % merges.first.size();
    const bool again = runs && i >= period && random() % 50 != 0;
    symbols.push_back(again ? symbols[i - period]
                            : ModelToken{merges.first[letter], 1 + static_cast<uint32_t>(letter)});
  }
  return symbols;
}

std::vector<std::pair<int32_t, uint32_t>> pairs_of(const std::vector<ModelToken>& tokens) {
  std::vector<std::pair<int32_t, uint32_t>> pairs;
  for (const ModelToken& token : tokens) pairs.emplace_back(token.id, token.bytes);
  return pairs;
}

TEST(MergeWindowsTest, GiveWhatTheWholePieceGives) {
  std::mt19937 random(1);
  int64_t by_windows = 0, refused = 0;
  for (int round = 0; round < 600; ++round) {
    const RandomMerges merges = random_merges(random, round % 4 == 0);
    const MergeWindows windows(merges.table, merges.rules, merges.first);
    MergeWorkspace workspace;
    for (int text = 0; text < 10; ++text) {
      const std::vector<ModelToken> symbols = random_symbols(random, merges);
      std::vector<ModelToken> whole = symbols;
      merge_all(merges.table, workspace, whole);
      std::vector<ModelToken> tokens = symbols;
      if (!windows.run(workspace, tokens)) {
        EXPECT_EQ(pairs_of(tokens), pairs_of(symbols));
        ++refused;
        continue;
      }
      ++by_windows;
      ASSERT_EQ(pairs_of(tokens), pairs_of(whole)) << "merges " << round << ", text " << text;
    }
  }
  EXPECT_GT(by_windows, 1500);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tessera

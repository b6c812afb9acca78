#include "data/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "data/synth_words.h"

namespace tessera {
namespace {

// The whole stories of a text, without the last one, which may be cut.
std::vector<std::string> stories_of(const std::string& text) {
  std::vector<std::string> stories;
  size_t at = 0;
  for (size_t end = text.find("\n\n"); end != std::string::npos; end = text.find("\n\n", at)) {
    stories.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  return stories;
}

// A sentence ends at . ! or ?, perhaps a closing quote, and then the end or a capital or a quote.
int count_sentences(const std::string& story) {
  int count = 0;
  for (size_t i = 0; i < story.size(); ++i) {
    if (std::string("!?.").find(story[i]) == std::string::npos) continue;
    size_t next = i + 1;
    if (next < story.size() && story[next] == '"' &&
        (next + 1 == story.size() || story[next + 1] == ' ')) {
      ++next;
    }
    if (next == story.size()) {
      ++count;
    } else if (story[next] == ' ' && (std::isupper(story[next + 1]) || story[next + 1] == '"')) {
      ++count;
    }
  }
  return count;
}

std::vector<std::string> words_of(const std::string& story) {
  std::vector<std::string> result(1);
  for (const char c : story) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      result.back() += c;
    } else if (!result.back().empty()) {
      result.emplace_back();
    }
  }
  return result;
}

template <size_t N>
void insert_all(const words::Word (&list)[N], std::set<std::string>& into) {
  for (const words::Word word : list) into.emplace(word);
}

TEST(SynthTest, MatchesTheGoldenHash) {
  const std::string text = synth_stories(7, 100'000);
  EXPECT_EQ(hex(hash_name(text)), "3b4fbcb9e54a435d");
}

TEST(SynthTest, HasExactlyTheAskedSizeAndIsAsciiText) {
  for (const int64_t bytes : {1, 2, 3, 100, 4097, 100'000}) {
    const std::string text = synth_stories(3, bytes);
    ASSERT_EQ(static_cast<int64_t>(text.size()), bytes);
    EXPECT_EQ(text.back(), '\n');
    EXPECT_TRUE(
        std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    EXPECT_EQ(text.find_first_of("{}"), std::string::npos) << "a slot was not filled";
  }
  EXPECT_THROW(synth_stories(3, 0), ConfigError);
  EXPECT_THROW(synth_stories(3, -5), ConfigError);
}

TEST(SynthTest, ShorterTextIsAPrefixOfLongerText) {
  const std::string longer = synth_stories(11, 50'000);
  for (const size_t bytes : {1U, 17U, 999U, 49'999U}) {
    const std::string shorter = synth_stories(11, static_cast<int64_t>(bytes));
    EXPECT_EQ(shorter.substr(0, bytes - 1), longer.substr(0, bytes - 1));
  }
}

TEST(SynthTest, SeedsAndStoriesDiffer) {
  const std::vector<std::string> one = stories_of(synth_stories(1, 2'000'000));
  const std::vector<std::string> two = stories_of(synth_stories(2, 2'000'000));
  const std::set<std::string> distinct(one.begin(), one.end());
  EXPECT_EQ(distinct.size(), one.size());
  for (const std::string& story : two) EXPECT_FALSE(distinct.contains(story));
}

TEST(SynthTest, StoriesHaveFiveToTwelveSentencesAndAMixOfLengths) {
  std::set<int> lengths;
  for (const std::string& story : stories_of(synth_stories(5, 1'000'000))) {
    const int count = count_sentences(story);
    ASSERT_GE(count, 5) << story;
    ASSERT_LE(count, 12) << story;
    lengths.insert(count);
    EXPECT_TRUE(std::isupper(story[0])) << story;
    EXPECT_EQ(story.find("  "), std::string::npos) << story;
  }
  EXPECT_GE(lengths.size(), 4U);
}

TEST(SynthTest, ArticlesAgreeWithTheNextLetter) {
  int an_count = 0;
  for (const std::string& story : stories_of(synth_stories(6, 1'000'000))) {
    const std::vector<std::string> words = words_of(story);
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i + 1].empty()) continue;
      const bool vowel = std::string("aeiou").find(words[i + 1][0]) != std::string::npos;
      EXPECT_FALSE(words[i] == "a" && vowel) << words[i + 1];
      EXPECT_FALSE(words[i] == "an" && !vowel) << words[i + 1];
      an_count += words[i] == "an" ? 1 : 0;
    }
  }
  EXPECT_GT(an_count, 100);
}

// The hero's name comes again and again, and nobody walks in who was not introduced: at most four
// names, and all but the hero's are introduced with what they are.
TEST(SynthTest, ACastOfAtMostFourStaysTheSameThroughAStory) {
  std::set<std::string> names;
  insert_all(words::kGirlNames, names);
  insert_all(words::kBoyNames, names);
  insert_all(words::kPetNames, names);
  for (const std::string& story : stories_of(synth_stories(8, 1'000'000))) {
    std::multiset<std::string> used;
    for (const std::string& word : words_of(story)) {
      if (names.contains(word)) used.insert(word);
    }
    const std::set<std::string> cast(used.begin(), used.end());
    EXPECT_GE(cast.size(), 3U) << story;
    EXPECT_LE(cast.size(), 4U) << story;
  }
}

// Girls are never "he": a story whose whole cast is female has no male pronoun, and the reverse.
TEST(SynthTest, PronounsFollowTheNames) {
  std::set<std::string> girls;
  std::set<std::string> boys;
  std::set<std::string> pets;
  insert_all(words::kGirlNames, girls);
  insert_all(words::kBoyNames, boys);
  insert_all(words::kPetNames, pets);
  int checked = 0;
  for (const std::string& story : stories_of(synth_stories(9, 1'000'000))) {
    const std::vector<std::string> words = words_of(story);
    const auto any_of = [&](const std::set<std::string>& set) {
      return std::ranges::any_of(words, [&](const std::string& w) { return set.contains(w); });
    };
    if (any_of(pets) || any_of(girls) == any_of(boys)) continue;
    ++checked;
    EXPECT_FALSE(any_of(any_of(girls) ? std::set<std::string>{"he", "He", "him", "his", "His"}
                                      : std::set<std::string>{"she", "She", "her", "Her"}))
        << story;
  }
  EXPECT_GT(checked, 10);
}

}  // namespace
}  // namespace tessera

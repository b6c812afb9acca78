#include "serve/batch/page_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>

#include "base/error.h"
#include "base/testing/share.h"

namespace tessera::serve {
namespace {

PageKey key_of(int64_t number) {
  PageKey key{};
  std::memcpy(key.data(), &number, sizeof(number));
  return key;
}

// The same, by looking through all pages for everything.
class NaiveCache {
 public:
  explicit NaiveCache(size_t num_pages) : pages_(num_pages) {}

  struct Page {
    std::vector<int> holders;    // one entry for each
    std::optional<int64_t> key;  // what it holds
    int64_t free_since = 0;
  };

  [[nodiscard]] int64_t num_free() const {
    return std::count_if(pages_.begin(), pages_.end(),
                         [](const Page& page) { return page.holders.empty(); });
  }
  // The page that must be taken: any without a key, else that which is free for longest.
  [[nodiscard]] bool may_take(size_t taken) const {
    const auto is_empty = [](const Page& page) { return page.holders.empty() && !page.key; };
    if (!pages_[taken].holders.empty()) return false;
    if (std::any_of(pages_.begin(), pages_.end(), is_empty)) return is_empty(pages_[taken]);
    return std::all_of(pages_.begin(), pages_.end(), [&](const Page& page) {
      return !page.holders.empty() || page.free_since >= pages_[taken].free_since;
    });
  }
  void take(size_t page) { pages_[page] = {{1}, {}, 0}; }
  void hold(size_t page) { pages_[page].holders.push_back(1); }
  void release(size_t page) {
    pages_[page].holders.pop_back();
    pages_[page].free_since = ++time_;
  }
  [[nodiscard]] int32_t find(int64_t key) const {
    for (size_t i = 0; i < pages_.size(); ++i) {
      if (pages_[i].key == key) return static_cast<int32_t>(i);
    }
    return PageCache::kNone;
  }
  std::vector<Page>& pages() { return pages_; }
  [[nodiscard]] std::vector<int32_t> holders() const {
    std::vector<int32_t> counts;
    for (const Page& page : pages_) counts.push_back(static_cast<int32_t>(page.holders.size()));
    return counts;
  }

 private:
  std::vector<Page> pages_;
  int64_t time_ = 0;
};

void run_random_events(uint64_t seed, int64_t num_events) {
  std::mt19937_64 dice(seed);
  const auto roll = [&](size_t below) { return static_cast<size_t>(dice() % below); };
  const size_t num_pages = 1 + roll(12);
  PageCache cache(static_cast<int64_t>(num_pages));
  NaiveCache naive(num_pages);
  const auto held = [&](size_t page) { return !naive.pages()[page].holders.empty(); };
  for (int64_t event = 0; event < num_events; ++event) {
    const size_t page = roll(num_pages);
    const auto number = static_cast<int32_t>(page);
    const auto key = static_cast<int64_t>(roll(20));
    switch (roll(5)) {
      case 0:
        if (naive.num_free() > 0) {
          const auto taken = static_cast<size_t>(cache.take());
          ASSERT_TRUE(naive.may_take(taken)) << "seed " << seed << ", event " << event;
          naive.take(taken);
        }
        break;
      case 1:
        if (held(page)) {
          cache.release(number);
          naive.release(page);
        }
        break;
      case 2: {
        const int32_t found = cache.find(key_of(key));
        ASSERT_EQ(found, naive.find(key)) << "seed " << seed << ", event " << event;
        if (found != PageCache::kNone) {
          cache.hold(found);
          naive.hold(static_cast<size_t>(found));
        }
        break;
      }
      case 3:
        if (held(page) && !naive.pages()[page].key) {
          const int32_t other = naive.find(key);
          const int32_t now = cache.publish(number, key_of(key));
          ASSERT_EQ(now, other == PageCache::kNone ? number : other);
          if (other == PageCache::kNone) {
            naive.pages()[page].key = key;
          } else {
            naive.hold(static_cast<size_t>(other));
            naive.release(page);
          }
        }
        break;
      default:
        if (roll(10) == 0) {
          cache.forget(number);
          naive.pages()[page].key.reset();
        }
    }
    ASSERT_EQ(cache.num_free(), naive.num_free());
    cache.check(naive.holders());
  }
}

TEST(PageCacheTest, DoesWhatANaiveOneDoes) {
  const tessera::testing::Share cases = tessera::testing::share_of(1000, 20);
  for (int64_t seed = cases.begin; seed < cases.end; ++seed) {
    run_random_events(static_cast<uint64_t>(seed), 1000);
    if (HasFatalFailure()) return;
  }
}

TEST(PageCacheTest, TailsGoBeforeHeads) {
  PageCache cache(4);
  std::vector<int32_t> text;
  for (int64_t i = 0; i < 4; ++i) {
    text.push_back(cache.take());
    EXPECT_EQ(cache.publish(text.back(), key_of(i)), text.back());
  }
  for (size_t i = text.size(); i-- > 0;) cache.release(text[i]);
  EXPECT_EQ(cache.num_cached(), 4);
  EXPECT_EQ(cache.take(), text[3]);
  EXPECT_EQ(cache.find(key_of(3)), PageCache::kNone);
  EXPECT_EQ(cache.take(), text[2]);
  cache.hold(text[0]);  // used again: the other one is older now
  cache.release(text[0]);
  EXPECT_EQ(cache.take(), text[1]);
  EXPECT_EQ(cache.find(key_of(0)), text[0]);
}

TEST(PageCacheTest, FindsItsOwnMistakes) {
  PageCache cache(2);
  const int32_t page = cache.take();
  EXPECT_THROW(cache.check({0, 0}), InternalError);
  EXPECT_THROW(cache.release(1 - page), InternalError);
  EXPECT_THROW(cache.hold(1 - page), InternalError);
  EXPECT_THROW(cache.release(7), InternalError);
  cache.take();
  EXPECT_THROW(cache.take(), InternalError);
}

TEST(PageKeyTest, DependsOnAllThatItNames) {
  const std::vector<int32_t> tokens = {1, 2, 3}, others = {1, 2, 4};
  const PageKey root = root_key("");
  EXPECT_EQ(page_key(root, tokens), page_key(root, tokens));
  EXPECT_NE(page_key(root, tokens), page_key(root, others));
  EXPECT_NE(page_key(root, tokens), page_key(root_key("tenant"), tokens));
  EXPECT_NE(page_key(root, tokens), page_key(page_key(root, tokens), tokens));
}

}  // namespace
}  // namespace tessera::serve

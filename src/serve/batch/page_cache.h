// The pages of the cache: who holds each, and which full pages can be found again by what they
// hold. A page is held by a number of sequences, or free; a free one that has a key stays findable
// until its memory is wanted for something else, the one that was held longest ago first. Constant
// time per page, and no memory after the start but that of keys.
//
// A sequence releases its pages from its last to its first, so that the tails of texts are evicted
// before their heads; as whoever holds a page holds the page of its parent key too, the parent of
// a page that can be found can be found as well (but after forget()).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serve/batch/page_key.h"

namespace tessera::serve {

class PageCache {
 public:
  static constexpr int32_t kNone = -1;

  explicit PageCache(int64_t num_pages);

  [[nodiscard]] int64_t num_pages() const { return static_cast<int64_t>(pages_.size()); }
  [[nodiscard]] int64_t num_free() const { return num_free_; }  // with those that can be found
  [[nodiscard]] int64_t num_used() const { return num_pages() - num_free_; }
  [[nodiscard]] int64_t num_cached() const { return num_cached_; }  // free, and can be found
  [[nodiscard]] int32_t holders(int32_t page) const { return at(page).holders; }

  // A free page, held once from now on. There must be one.
  int32_t take();
  void hold(int32_t page);  // once more; also one that is free and can be found
  void release(int32_t page);

  [[nodiscard]] int32_t find(const PageKey& key) const;  // kNone: nowhere
  // `page` is full, held, and has what `key` says. Where another page has that too, the caller
  // holds that one from now on instead of `page`. Gives the page that it holds.
  int32_t publish(int32_t page, const PageKey& key);
  // Nobody finds it any more; who holds it keeps it.
  void forget(int32_t page);

  // Throws InternalError unless used + free = pages and lists, keys and counts agree. `holders` has
  // the true number for each page.
  void check(const std::vector<int32_t>& holders) const;

 private:
  struct Page {
    int32_t holders = 0;
    bool has_key = false;
    PageKey key{};
    int32_t older = kNone, newer = kNone;  // among those that are free and can be found
  };
  [[nodiscard]] const Page& at(int32_t page) const;
  Page& at(int32_t page) { return const_cast<Page&>(std::as_const(*this).at(page)); }
  void remove_from_cached(int32_t page);
  void add_to_cached(int32_t page);

  std::vector<Page> pages_;
  std::vector<int32_t> empty_;  // free, without a key
  std::unordered_map<PageKey, int32_t, PageKeyHash> by_key_;
  int32_t oldest_ = kNone, newest_ = kNone;
  int64_t num_free_ = 0, num_cached_ = 0;
};

}  // namespace tessera::serve

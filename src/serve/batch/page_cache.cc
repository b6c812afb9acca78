#include "serve/batch/page_cache.h"

#include "base/error.h"

namespace tessera::serve {

PageCache::PageCache(int64_t num_pages) : num_free_(num_pages) {
  require(num_pages > 0, "a cache of {} pages: it needs one at least", num_pages);
  pages_.resize(static_cast<size_t>(num_pages));
  empty_.reserve(pages_.size());
  for (auto page = static_cast<int32_t>(num_pages) - 1; page >= 0; --page) empty_.push_back(page);
  by_key_.reserve(pages_.size());
}

const PageCache::Page& PageCache::at(int32_t page) const {
  TESSERA_CHECK(page >= 0 && static_cast<size_t>(page) < pages_.size(), "page {} of {}", page,
                pages_.size());
  return pages_[static_cast<size_t>(page)];
}

void PageCache::remove_from_cached(int32_t page) {
  Page& removed = at(page);
  (removed.older == kNone ? oldest_ : at(removed.older).newer) = removed.newer;
  (removed.newer == kNone ? newest_ : at(removed.newer).older) = removed.older;
  removed.older = removed.newer = kNone;
  --num_cached_;
}

void PageCache::add_to_cached(int32_t page) {
  Page& added = at(page);
  added.older = newest_;
  (newest_ == kNone ? oldest_ : at(newest_).newer) = page;
  newest_ = page;
  ++num_cached_;
}

int32_t PageCache::take() {
  TESSERA_CHECK(num_free_ > 0, "a page was taken where none is free");
  int32_t page = oldest_;
  if (!empty_.empty()) {
    page = empty_.back();
    empty_.pop_back();
  } else {
    remove_from_cached(page);
    by_key_.erase(at(page).key);
    at(page).has_key = false;
  }
  at(page).holders = 1;
  --num_free_;
  return page;
}

void PageCache::hold(int32_t page) {
  Page& held = at(page);
  if (held.holders == 0) {
    TESSERA_CHECK(held.has_key, "page {} is empty and cannot be held", page);
    remove_from_cached(page);
    --num_free_;
  }
  ++held.holders;
}

void PageCache::release(int32_t page) {
  Page& released = at(page);
  TESSERA_CHECK(released.holders > 0, "page {} is released, but nobody holds it", page);
  if (--released.holders > 0) return;
  ++num_free_;
  if (released.has_key) {
    add_to_cached(page);
  } else {
    empty_.push_back(page);
  }
}

int32_t PageCache::find(const PageKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? kNone : found->second;
}

int32_t PageCache::publish(int32_t page, const PageKey& key) {
  Page& published = at(page);
  TESSERA_CHECK(published.holders > 0, "page {} is published, but nobody holds it", page);
  if (published.has_key && published.key == key) return page;
  TESSERA_CHECK(!published.has_key, "page {} is published with two keys", page);
  const auto [found, is_new] = by_key_.try_emplace(key, page);
  if (is_new) {
    published.has_key = true;
    published.key = key;
    return page;
  }
  const int32_t other = found->second;
  hold(other);
  release(page);
  return other;
}

void PageCache::forget(int32_t page) {
  Page& forgotten = at(page);
  if (!forgotten.has_key) return;
  by_key_.erase(forgotten.key);
  forgotten.has_key = false;
  if (forgotten.holders > 0) return;
  remove_from_cached(page);
  empty_.push_back(page);
}

void PageCache::check(const std::vector<int32_t>& holders) const {
  TESSERA_CHECK(holders.size() == pages_.size(), "{} counts of {} pages", holders.size(),
                pages_.size());
  int64_t used = 0, cached = 0, keys = 0;
  for (size_t i = 0; i < pages_.size(); ++i) {
    const Page& page = pages_[i];
    TESSERA_CHECK(page.holders == holders[i], "page {} counts {} holders; it has {}", i,
                  page.holders, holders[i]);
    used += page.holders > 0 ? 1 : 0;
    if (!page.has_key) continue;
    ++keys;
    cached += page.holders == 0 ? 1 : 0;
    TESSERA_CHECK(find(page.key) == static_cast<int32_t>(i), "page {} is not found by its key", i);
  }
  TESSERA_CHECK(used + num_free_ == num_pages(), "{} pages are used and {} free, of {}", used,
                num_free_, num_pages());
  TESSERA_CHECK(cached == num_cached_ && keys == static_cast<int64_t>(by_key_.size()),
                "{} cached pages of {}, {} keys of {}", num_cached_, cached, by_key_.size(), keys);
  TESSERA_CHECK(static_cast<int64_t>(empty_.size()) + num_cached_ == num_free_,
                "{} empty and {} cached pages, but {} free", empty_.size(), num_cached_, num_free_);
  int64_t listed = 0;
  for (int32_t page = oldest_; page != kNone; page = at(page).newer) {
    TESSERA_CHECK(at(page).holders == 0 && at(page).has_key, "page {} is listed as cached", page);
    TESSERA_CHECK(++listed <= cached, "the list of cached pages is a ring at {}", page);
  }
  TESSERA_CHECK(listed == cached, "{} pages are listed as cached, {} are", listed, cached);
}

}  // namespace tessera::serve

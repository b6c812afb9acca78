#include "compile/lower/first_fit.h"

#include <algorithm>
#include <utility>

#include "base/index.h"

namespace tessera {

void FirstFit::add(Pieces& pieces, Piece added) {
  const auto first = std::partition_point(pieces.begin(), pieces.end(),
                                          [&](const Piece& p) { return p.end < added.begin; });
  const auto behind = std::partition_point(first, pieces.end(),
                                           [&](const Piece& p) { return p.begin <= added.end; });
  if (first == behind) {
    pieces.insert(first, added);
    return;
  }
  *first = {std::min(first->begin, added.begin), std::max((behind - 1)->end, added.end)};
  pieces.erase(first + 1, behind);
}

int FirstFit::half(int span, size_t which) {
  const int known = spans_[index(span)].halves[which];
  if (known != kNone) return known;
  const int fresh = static_cast<int>(spans_.size());
  spans_.emplace_back();
  return spans_[index(span)].halves[which] = fresh;
}

void FirstFit::note(int span, int64_t begin, int64_t width, Lifetime alive, Piece piece) {
  if (alive.last < begin || begin + width <= alive.first) return;
  add(spans_[index(span)].any, piece);
  if (alive.first <= begin && begin + width - 1 <= alive.last) {
    add(spans_[index(span)].whole, piece);
    return;
  }
  // Only halves in which it is alive are made.
  const int64_t middle = begin + width / 2;
  if (alive.first < middle) note(half(span, 0), begin, width / 2, alive, piece);
  if (alive.last >= middle) note(half(span, 1), middle, width / 2, alive, piece);
}

void FirstFit::collect(int span, int64_t begin, int64_t width, Lifetime alive,
                       std::vector<std::span<const Piece>>& taken) const {
  if (span == kNone || alive.last < begin || begin + width <= alive.first) return;
  const Span& here = spans_[index(span)];
  const bool all_of_it = alive.first <= begin && begin + width - 1 <= alive.last;
  const Pieces& pieces = all_of_it ? here.any : here.whole;
  if (!pieces.empty()) taken.emplace_back(pieces);
  if (all_of_it) return;
  collect(here.halves[0], begin, width / 2, alive, taken);
  collect(here.halves[1], begin + width / 2, width / 2, alive, taken);
}

int64_t FirstFit::place_for(Lifetime alive, int64_t bytes) const {
  std::vector<std::span<const Piece>> taken;
  collect(root_, 0, width_, alive, taken);
  int64_t at = 0;
  for (bool moved = bytes > 0; moved;) {
    moved = false;
    for (std::span<const Piece>& ahead : taken) {
      const auto next = std::partition_point(ahead.begin(), ahead.end(),
                                             [&](const Piece& p) { return p.end <= at; });
      ahead = ahead.subspan(static_cast<size_t>(next - ahead.begin()));
      ++looked_at_;
      while (!ahead.empty() && ahead.front().begin < at + bytes) {
        at = ahead.front().end;
        ahead = ahead.subspan(1);
        moved = true;
        ++looked_at_;
      }
    }
  }
  return at;
}

void FirstFit::add(Lifetime alive, int64_t offset, int64_t bytes) {
  bytes_ = std::max(bytes_, offset + bytes);
  if (bytes == 0) return;  // in nobody's way
  if (root_ == kNone) {
    root_ = 0;
    spans_.emplace_back();
  }
  for (; width_ <= alive.last; width_ *= 2) {
    Span twice{{}, spans_[index(root_)].any, {root_, kNone}};
    root_ = static_cast<int>(spans_.size());
    spans_.push_back(std::move(twice));
  }
  note(root_, 0, width_, alive, {offset, offset + bytes});
}

}  // namespace tessera

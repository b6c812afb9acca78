// Storages of one block of memory, each at the lowest offset at which it meets nobody that is alive
// at the same time. A step of many layers has many thousands, so time is a tree of halves: a
// storage is noted at the few halves that make up its life, and what touches there is one piece.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

// What is alive from `first` to `last`, both included and not negative.
struct Lifetime {
  int first = 0;
  int last = 0;
};

class FirstFit {
 public:
  // Lowest offset for so many bytes, which may be 0.
  [[nodiscard]] int64_t place_for(Lifetime alive, int64_t bytes) const;
  void add(Lifetime alive, int64_t offset, int64_t bytes);
  // The end of the highest one.
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  // Pieces of memory that searches have looked at so far.
  [[nodiscard]] int64_t looked_at() const { return looked_at_; }

 private:
  // Memory that is taken.
  struct Piece {
    int64_t begin = 0, end = 0;
  };
  using Pieces = std::vector<Piece>;  // by offset; those that touch are one
  // Some time: all of it, or one half of a longer one.
  struct Span {
    Pieces whole;  // those who are alive all through it, and not all through the longer one
    Pieces any;    // those, and the ones of its halves
    std::array<int, 2> halves = {kNone, kNone};
  };
  static constexpr int kNone = -1;

  static void add(Pieces& pieces, Piece added);
  // Notes a piece at the spans that make up its life; `span` begins at `begin` and is `width` long.
  void note(int span, int64_t begin, int64_t width, Lifetime alive, Piece piece);
  // Collects what is taken by everybody who is alive at some time in `alive`.
  void collect(int span, int64_t begin, int64_t width, Lifetime alive,
               std::vector<std::span<const Piece>>& taken) const;
  int half(int span, size_t which);

  std::vector<Span> spans_;  // those in which somebody is alive
  int root_ = kNone;         // begins at 0
  int64_t width_ = 1;        // of the root
  int64_t bytes_ = 0;
  mutable int64_t looked_at_ = 0;
};

}  // namespace tessera

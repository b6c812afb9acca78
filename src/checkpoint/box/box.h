// Axis-aligned boxes of elements inside a tensor: what a rank holds of it, what a file has of it,
// what somebody wants of it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera {

inline constexpr size_t kMostBoxDims = 8;

// Elements whose index d is in [offset[d], offset[d] + shape[d]). Without dims it is the one
// element of a scalar.
struct Box {
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;

  [[nodiscard]] size_t dims() const { return shape.size(); }
  [[nodiscard]] int64_t end(size_t dim) const { return offset[dim] + shape[dim]; }
  friend bool operator==(const Box&, const Box&) = default;
  friend auto operator<=>(const Box&, const Box&) = default;
};

Box whole_box(std::vector<int64_t> shape);
int64_t volume(const Box& box);                                // of a box that lies in some tensor
bool lies_in(const Box& box, std::span<const int64_t> shape);  // and has its dims
std::optional<Box> intersection(const Box& a, const Box& b);   // nothing where they share nothing
std::string box_text(const Box& box);                          // "[0:2, 4:8]"

// Elements [first, first + count) of a tensor in row-major order, as at most 2 * dims - 1 boxes in
// that order: a part of a row, whole rows, a part of a row.
std::vector<Box> boxes_of_range(std::span<const int64_t> shape, int64_t first, int64_t count);

// Empty where every element of a tensor of this shape lies in exactly one box; else what is wrong,
// with the boxes concerned. Sorts a copy; the boxes may come in any order.
std::string cover_problem(std::span<const int64_t> shape, std::vector<Box> boxes);

}  // namespace tessera

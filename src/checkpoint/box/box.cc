#include "checkpoint/box/box.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

bool is_empty(const Box& box) {
  return std::ranges::any_of(box.shape, [](int64_t size) { return size == 0; });
}

// Elements of one index of the first dim.
int64_t row_volume(std::span<const int64_t> shape) {
  int64_t volume = 1;
  for (size_t d = 1; d < shape.size(); ++d) volume *= shape[d];
  return volume;
}

void add_range(std::span<const int64_t> shape, int64_t first, int64_t count, const Box& outer,
               std::vector<Box>& boxes);

// Rows [first, first + count) of the tensor that `outer` has fixed the leading indices of.
void add_rows(std::span<const int64_t> shape, int64_t first, int64_t count, const Box& outer,
              std::vector<Box>& boxes) {
  if (count == 0) return;
  Box box = outer;
  box.offset.push_back(first);
  box.shape.push_back(count);
  for (size_t d = 1; d < shape.size(); ++d) {
    box.offset.push_back(0);
    box.shape.push_back(shape[d]);
  }
  boxes.push_back(std::move(box));
}

// A part of one row: a range of the tensor that the row is.
void add_in_row(std::span<const int64_t> shape, int64_t row, int64_t first, int64_t count,
                const Box& outer, std::vector<Box>& boxes) {
  if (count == 0) return;
  Box inner = outer;
  inner.offset.push_back(row);
  inner.shape.push_back(1);
  add_range(shape.subspan(1), first, count, inner, boxes);
}

void add_range(std::span<const int64_t> shape, int64_t first, int64_t count, const Box& outer,
               std::vector<Box>& boxes) {
  if (shape.empty()) return boxes.push_back(outer);
  const int64_t row = row_volume(shape);
  const int64_t end = first + count;
  int64_t first_row = first / row;
  const int64_t end_row = end / row;
  if (first_row == end_row) {
    return add_in_row(shape, first_row, first % row, count, outer, boxes);
  }
  if (first % row != 0) {
    add_in_row(shape, first_row, first % row, row - first % row, outer, boxes);
    ++first_row;
  }
  add_rows(shape, first_row, end_row - first_row, outer, boxes);
  add_in_row(shape, end_row, 0, end % row, outer, boxes);
}

// How many boxes at most have some index of this dim in common.
size_t most_side_by_side(const std::vector<Box>& boxes, size_t dim) {
  std::vector<std::pair<int64_t, int>> ends;
  for (const Box& box : boxes) {
    ends.emplace_back(box.offset[dim], 1);
    ends.emplace_back(box.end(dim), -1);
  }
  std::ranges::sort(ends);  // an end comes before a begin at the same index
  int64_t now = 0, most = 0;
  for (const auto& [at, change] : ends) most = std::max(most, now += change);
  return static_cast<size_t>(most);
}

// Two boxes that share an element, if there are such. Goes along the dim where the fewest are side
// by side, so that few pairs are looked at.
std::optional<std::pair<Box, Box>> overlapping(std::vector<Box>& boxes) {
  if (boxes.size() < 2) return std::nullopt;
  const size_t dims = boxes.front().dims();
  if (dims == 0) return std::pair(boxes[0], boxes[1]);
  size_t along = 0, fewest = std::numeric_limits<size_t>::max();
  for (size_t d = 0; d < dims; ++d) {
    const size_t most = most_side_by_side(boxes, d);
    if (most < fewest) {
      fewest = most;
      along = d;
    }
  }
  std::ranges::sort(boxes, {}, [&](const Box& box) { return box.offset[along]; });
  std::vector<size_t> open;  // boxes that have not ended yet
  for (size_t i = 0; i < boxes.size(); ++i) {
    std::erase_if(open, [&](size_t j) { return boxes[j].end(along) <= boxes[i].offset[along]; });
    for (const size_t j : open) {
      if (intersection(boxes[i], boxes[j])) return std::pair(boxes[j], boxes[i]);
    }
    open.push_back(i);
  }
  return std::nullopt;
}

}  // namespace

Box whole_box(std::vector<int64_t> shape) {
  std::vector<int64_t> origin(shape.size(), 0);
  return {std::move(origin), std::move(shape)};
}

int64_t volume(const Box& box) {
  int64_t product = 1;
  for (const int64_t size : box.shape) product *= size;
  return product;
}

bool lies_in(const Box& box, std::span<const int64_t> shape) {
  if (box.offset.size() != shape.size() || box.shape.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    // By subtraction: a sum of what a file says may overflow.
    if (box.offset[d] < 0 || box.shape[d] < 0 || box.offset[d] > shape[d]) return false;
    if (box.shape[d] > shape[d] - box.offset[d]) return false;
  }
  return true;
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  TESSERA_CHECK(a.dims() == b.dims(), "boxes of {} and {} dims", a.dims(), b.dims());
  Box both;
  for (size_t d = 0; d < a.dims(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.end(d), b.end(d));
    if (begin >= end) return std::nullopt;
    both.offset.push_back(begin);
    both.shape.push_back(end - begin);
  }
  return both;
}

std::string box_text(const Box& box) {
  std::vector<std::string> ranges;
  for (size_t d = 0; d < box.dims(); ++d) {
    ranges.push_back(fmt::format("{}:{}", box.offset[d], box.end(d)));
  }
  return fmt::format("[{}]", fmt::join(ranges, ", "));
}

std::vector<Box> boxes_of_range(std::span<const int64_t> shape, int64_t first, int64_t count) {
  const int64_t all = volume(whole_box({shape.begin(), shape.end()}));
  TESSERA_CHECK(first >= 0 && count >= 0 && first <= all && count <= all - first,
                "elements {} to {} of {}", first, first + count, all);
  std::vector<Box> boxes;
  if (count > 0) add_range(shape, first, count, {}, boxes);
  return boxes;
}

std::string cover_problem(std::span<const int64_t> shape, std::vector<Box> boxes) {
  const int64_t all = volume(whole_box({shape.begin(), shape.end()}));
  int64_t covered = 0;
  for (const Box& box : boxes) {
    if (!lies_in(box, shape)) {
      return fmt::format("{} does not lie in a tensor of shape [{}]", box_text(box),
                         fmt::join(shape, ", "));
    }
    if (volume(box) > all - covered) {
      covered = all + 1;
      break;
    }
    covered += volume(box);
  }
  std::erase_if(boxes, is_empty);
  if (covered < all) return fmt::format("{} of {} elements are in no chunk", all - covered, all);
  if (const auto both = overlapping(boxes)) {
    return fmt::format("{} and {} overlap", box_text(both->first), box_text(both->second));
  }
  return covered > all ? fmt::format("chunks have more than its {} elements", all) : "";
}

}  // namespace tessera

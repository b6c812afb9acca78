#include "graph/mesh.h"

#include <utility>

#include "base/error.h"

namespace tessera {

std::string name_of(AxisSet axes) {
  if (axes == AxisSet::all()) return "world";
  std::string name;
  for (const Axis axis : kAllAxes) {
    if (!axes.contains(axis)) continue;
    if (!name.empty()) name += '+';
    name += name_of(axis);
  }
  return name;
}

Mesh::Mesh(const std::array<int64_t, kNumAxes - 1>& sizes, int64_t fsdp_in)
    : sizes_{sizes[0], sizes[1], sizes[2] / fsdp_in, fsdp_in, sizes[3], sizes[4]} {
  TESSERA_CHECK(size(fsdp_axes()) == sizes[2], "{} does not divide fsdp = {}", fsdp_in, sizes[2]);
  for (const Axis axis : kAllAxes) {
    TESSERA_CHECK(size(axis) >= 1, "axis {} has size {}", name_of(axis), size(axis));
  }
}

int64_t Mesh::size(AxisSet axes) const {
  int64_t n = 1;
  for (const Axis axis : kAllAxes) {
    if (axes.contains(axis)) n *= size(axis);
  }
  return n;
}

int64_t Mesh::coord(int rank, Axis axis) const {
  int64_t rest = rank;
  for (size_t i = kNumAxes; i-- > 0;) {
    if (kAllAxes[i] == axis) return rest % sizes_[i];
    rest /= sizes_[i];
  }
  return 0;
}

std::vector<int> Mesh::peers(int rank, AxisSet axes) const {
  std::vector<int> ranks = {rank};
  int64_t stride = 1;
  for (size_t i = kNumAxes; i-- > 0;) {
    if (axes.contains(kAllAxes[i])) {
      const int64_t first = -coord(rank, kAllAxes[i]) * stride;
      std::vector<int> more;
      more.reserve(ranks.size() * static_cast<size_t>(sizes_[i]));
      for (int64_t at = 0; at < sizes_[i]; ++at) {
        for (const int inner : ranks) {
          more.push_back(inner + static_cast<int>(first + at * stride));
        }
      }
      ranks = std::move(more);
    }
    stride *= sizes_[i];
  }
  return ranks;
}

AxisSet Mesh::group(AxisSet axes) const {
  if (axes == AxisSet::all()) return axes;
  AxisSet larger;
  for (const Axis axis : kAllAxes) {
    if (axes.contains(axis) && size(axis) > 1) larger = larger.with(axis);
  }
  return larger;
}

int Mesh::position(int rank, AxisSet axes) const {
  int64_t position = 0;
  for (const Axis axis : kAllAxes) {
    if (axes.contains(axis)) position = position * size(axis) + coord(rank, axis);
  }
  return static_cast<int>(position);
}

std::string Mesh::describe(int rank) const {
  std::string text;
  for (const Axis axis : kAllAxes) {
    if (size(axis) == 1) continue;
    if (!text.empty()) text += ' ';
    text += fmt::format("{}{}", name_of(axis), coord(rank, axis));
  }
  return text.empty() ? "alone" : text;
}

}  // namespace tessera

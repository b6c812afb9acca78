#include "api/show/parallel/rank_grid.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

// Whose ranks share the experts, the nearest first.
constexpr std::array<std::string_view, 4> kExpertAxes = {"tp", "cp", "fsdp", "dp"};

}  // namespace

RankGrid::RankGrid(std::vector<GridAxis> axes, int64_t ep) : axes_(std::move(axes)), ep_(ep) {
  int64_t stride = 1;
  for (GridAxis& axis : axes_) {
    axis.stride = stride;
    stride *= axis.size;
  }
}

const GridAxis& RankGrid::axis(std::string_view name) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(),
                                  [&](const GridAxis& one) { return one.name == name; });
  TESSERA_CHECK(found != axes_.end(), "a grid has no axis {}", name);
  return *found;
}

int64_t RankGrid::world() const {
  int64_t world = 1;
  for (const GridAxis& one : axes_) world *= one.size;
  return world;
}

int64_t RankGrid::size(std::string_view name) const { return name == "ep" ? ep_ : axis(name).size; }

// The place of a rank among those that differ in tp, cp, fsdp and dp, tp first.
int64_t RankGrid::expert_place(int64_t rank) const {
  int64_t place = 0, unit = 1;
  for (const std::string_view name : kExpertAxes) {
    place += unit * coord(rank, name);
    unit *= size(name);
  }
  return place;
}

int64_t RankGrid::coord(int64_t rank, std::string_view name) const {
  if (name == "ep") return expert_place(rank) % ep_;
  const GridAxis& one = axis(name);
  return rank / one.stride % one.size;
}

int64_t RankGrid::rank_at(int64_t expert_place, int64_t stage) const {
  int64_t rank = stage * axis("pp").stride;
  for (const std::string_view name : kExpertAxes) {
    rank += expert_place % size(name) * axis(name).stride;
    expert_place /= size(name);
  }
  return rank;
}

std::vector<int64_t> RankGrid::peers(int64_t rank, std::string_view name) const {
  std::vector<int64_t> ranks;
  if (name == "ep") {
    const int64_t first = expert_place(rank) / ep_ * ep_, stage = coord(rank, "pp");
    for (int64_t i = 0; i < ep_; ++i) ranks.push_back(rank_at(first + i, stage));
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  const GridAxis& one = axis(name);
  const int64_t first = rank - coord(rank, name) * one.stride;
  for (int64_t i = 0; i < one.size; ++i) ranks.push_back(first + i * one.stride);
  return ranks;
}

int64_t RankGrid::data_shard(int64_t rank) const {
  return coord(rank, "dp") * size("fsdp") + coord(rank, "fsdp");
}

}  // namespace tessera

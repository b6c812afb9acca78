// The ranks of a mesh as a grid whose axes may lie in any order. In the usual one it is the Mesh of
// a run; other orders show what becomes of groups whose ranks lie apart.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct GridAxis {
  std::string name;  // "tp"
  int64_t size = 1;
  int64_t stride = 1;  // from a rank to the next of its group
};

class RankGrid {
 public:
  static constexpr std::array<std::string_view, 5> kUsualOrder = {"tp", "cp", "fsdp", "dp", "pp"};

  // `axes`: innermost first; their strides are filled in. `ep` ranks share the experts: it is no
  // axis of its own but takes the ranks of tp, cp, fsdp and dp, in that order.
  RankGrid(std::vector<GridAxis> axes, int64_t ep);

  [[nodiscard]] const std::vector<GridAxis>& axes() const { return axes_; }
  [[nodiscard]] int64_t world() const;
  [[nodiscard]] int64_t ep() const { return ep_; }
  [[nodiscard]] int64_t size(std::string_view axis) const;
  // The place of a rank on an axis, or among the experts ("ep").
  [[nodiscard]] int64_t coord(int64_t rank, std::string_view axis) const;
  // The ranks of a group, with this one, ascending.
  [[nodiscard]] std::vector<int64_t> peers(int64_t rank, std::string_view axis) const;
  // Which part of the samples a rank takes: as a Mesh counts dp and fsdp.
  [[nodiscard]] int64_t data_shard(int64_t rank) const;

 private:
  [[nodiscard]] const GridAxis& axis(std::string_view name) const;
  [[nodiscard]] int64_t expert_place(int64_t rank) const;
  [[nodiscard]] int64_t rank_at(int64_t expert_place, int64_t stage) const;

  std::vector<GridAxis> axes_;
  int64_t ep_;
};

}  // namespace tessera

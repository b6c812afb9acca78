// The type of a tensor: element type, global shape, and one placement per mesh axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "graph/mesh.h"

namespace tessera {

using Shape = std::vector<int64_t>;

int64_t numel(const Shape& shape);
std::string to_string(const Shape& shape);  // "512x256"

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;  // of the whole tensor; split dimensions are padded to a multiple of their ranks
  Placements placements{};

  [[nodiscard]] Placement on(Axis axis) const { return placements[index_of(axis)]; }
  [[nodiscard]] TensorType with(Axis axis, Placement placement) const {
    TensorType type = *this;
    type.placements[index_of(axis)] = placement;
    return type;
  }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// The part that one rank holds; the same on every rank. InternalError when a split does not divide.
Shape local_shape(const TensorType& type, const Mesh& mesh);

// "f32 512x256 {dp:S(0) tp:R}", axes that are I left out.
std::string to_string(const TensorType& type);

}  // namespace tessera

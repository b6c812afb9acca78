#include "graph/type.h"

#include "base/error.h"

namespace tessera {

int64_t numel(const Shape& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) {
    TESSERA_CHECK(!__builtin_mul_overflow(n, d, &n), "shape {} overflows", to_string(shape));
  }
  return n;
}

std::string to_string(const Shape& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

Shape local_shape(const TensorType& type, const Mesh& mesh) {
  Shape shape = type.shape;
  for (const Axis axis : kAllAxes) {
    const Placement p = type.on(axis);
    if (p.kind != Placement::Kind::kSplit) continue;
    const auto dim = static_cast<size_t>(p.dim);
    TESSERA_CHECK(dim < shape.size() && shape[dim] % mesh.size(axis) == 0,
                  "dimension {} of {} does not divide by {} = {}", p.dim, to_string(type),
                  name_of(axis), mesh.size(axis));
    shape[dim] /= mesh.size(axis);
  }
  return shape;
}

std::string to_string(const TensorType& type) {
  std::string where;
  for (const Axis axis : kAllAxes) {
    if (type.on(axis) == invariant()) continue;
    where +=
        fmt::format("{}{}:{}", where.empty() ? "" : " ", name_of(axis), to_string(type.on(axis)));
  }
  return fmt::format("{} {} {{{}}}", name_of(type.dtype), to_string(type.shape), where);
}

}  // namespace tessera

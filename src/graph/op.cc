#include "graph/op.h"

#include <array>

namespace tessera {

std::string_view name_of(Pass pass) {
  static constexpr std::array<std::string_view, 6> kNames = {"F", "I", "W", "G", "U", "R"};
  return kNames[static_cast<size_t>(pass)];
}

bool is_data_axis(Axis axis) { return data_axes().contains(axis); }

}  // namespace tessera

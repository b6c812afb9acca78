// A number of the catalogue with where it comes from.
#pragma once

#include <nlohmann/json.hpp>

#include "cost/hardware/constant.h"

namespace tessera {

inline nlohmann::ordered_json constant_json(const Constant& constant) {
  return {{"value", constant.value},
          {"provenance", name_of(constant.provenance)},
          {"source", constant.source}};
}

}  // namespace tessera

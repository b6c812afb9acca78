#include "graph/operands.h"

namespace tessera {

void Operands::fail(const std::string& why) const {
  throw TypeError(fmt::format("{} '{}': {}", name_of(node_.op), node_.name, why));
}

void Operands::want(bool ok, const char* what) const {
  if (ok) return;
  std::string types;
  for (size_t i = 0; i < size(); ++i) {
    types += fmt::format("{}'{}' {}", i > 0 ? ", " : "", name(i), to_string(in(i)));
  }
  fail(fmt::format("{} (inputs: {})", what, types));
}

}  // namespace tessera

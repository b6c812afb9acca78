// Linked to test programs that may use a GPU: they find its libraries as the tessera program does.
#include <cstdlib>

#include "tensor/machine_folders.h"

namespace tessera {
namespace {

[[maybe_unused]] const bool kUsed = [] {
  use_folders(folders_from([](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  }));
  return true;
}();

}  // namespace
}  // namespace tessera

// Linked to test programs that may use a GPU, or whose kernels have bodies for levels of the CPU:
// they find its libraries, and take the level that is said, as the tessera program does.
#include <cstdlib>

#include "tensor/cpu_level.h"
#include "tensor/machine_folders.h"

namespace tessera {
namespace {

[[maybe_unused]] const bool kUsed = [] {
  const auto value_of = [](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  };
  use_folders(folders_from(value_of));
  use_cpu_level(value_of("TESSERA_CPU_LEVEL"));
  return true;
}();

}  // namespace
}  // namespace tessera

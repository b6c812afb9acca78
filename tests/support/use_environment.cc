// Linked to test programs that may use a GPU, or whose kernels have bodies for levels of the CPU:
// they find its libraries, and take the level that is said, as the tessera program does. With
// TESSERA_EMULATE_TILES they run at the level of tiles also where the CPU has none.
#include <cstdlib>

#if defined(__x86_64__)
#include "kernels/testing/tiles_here.h"
#endif
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
#if defined(__x86_64__)
  using kernels::testing::TilesHere;
  static std::optional<TilesHere> tiles;
  if (!value_of("TESSERA_EMULATE_TILES").empty() && TilesHere::possible()) tiles.emplace();
#endif
  return true;
}();

}  // namespace
}  // namespace tessera

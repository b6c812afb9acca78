#include "library/surroundings.h"

#include <cstdlib>
#include <mutex>

#include "cli/surroundings.h"
#include "tensor/cpu_level.h"
#include "tensor/machine_folders.h"

namespace tessera::library {

Surroundings surroundings() {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto value_of = [](const std::string& name) -> std::string {
      const char* value = std::getenv(name.c_str());
      return value == nullptr ? "" : value;
    };
    use_folders(folders_from(value_of));
    use_cpu_level(value_of("TESSERA_CPU_LEVEL"));
  });
  return console_surroundings();
}

}  // namespace tessera::library

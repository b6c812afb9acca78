#include "library/surroundings.h"

#include <cstdlib>
#include <mutex>

#include "cli/surroundings.h"
#include "tensor/machine_folders.h"

namespace tessera::library {

Surroundings surroundings() {
  static std::once_flag once;
  std::call_once(once, [] {
    use_folders(folders_from([](const std::string& name) -> std::string {
      const char* value = std::getenv(name.c_str());
      return value == nullptr ? "" : value;
    }));
  });
  return console_surroundings();
}

}  // namespace tessera::library

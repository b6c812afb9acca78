#include "cli/machine_facts.h"

#include <fstream>

#include "base/text.h"

namespace tessera {

std::string proc_value(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || trim(line.substr(0, colon)) != key) continue;
    return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return "";
}

std::string processor_name() {
  const std::string name = proc_value("/proc/cpuinfo", "model name");
  return name.empty() ? "a processor" : name;
}

}  // namespace tessera

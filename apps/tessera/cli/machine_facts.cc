#include "cli/machine_facts.h"

#include "launch/system_files.h"

namespace tessera {

std::string processor_name() {
  const std::string name = proc_value("/proc/cpuinfo", "model name");
  return name.empty() ? "a processor" : name;
}

}  // namespace tessera

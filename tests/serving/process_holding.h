// What a process holds, as /proc says.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tessera::testing {

struct ProcessHolding {
  int64_t files = 0, threads = 0, rss_kib = 0;
};

inline int64_t entries_in(const std::string& folder) {
  std::error_code gone;
  int64_t count = 0;
  for (auto entry = std::filesystem::directory_iterator(folder, gone);
       !gone && entry != std::filesystem::directory_iterator(); entry.increment(gone)) {
    ++count;
  }
  return count;
}

inline ProcessHolding holding_of(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  ProcessHolding holding{entries_in(process + "/fd"), entries_in(process + "/task"), 0};
  std::ifstream status(process + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) holding.rss_kib = std::atoll(line.c_str() + 6);
  }
  return holding;
}

}  // namespace tessera::testing

// For tests: what this process holds.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tessera::serve::testing {

inline int64_t rss_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

inline int64_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator files(folder);
  return std::distance(begin(files), end(files));
}

inline int64_t open_files() { return entries_of("/proc/self/fd"); }
inline int64_t running_threads() { return entries_of("/proc/self/task"); }

// One that keeps memory of its own beside every allocation.
constexpr bool has_sanitizer() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

}  // namespace tessera::serve::testing

#include "comm/shm/host_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

namespace tessera {
namespace {

constexpr int64_t kUnknown = INT64_MAX;

// The number behind a word of a file of "word number" lines.
int64_t number_after(const std::string& path, std::string_view key, int64_t otherwise) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    int64_t number = 0;
    if (words >> word && word == key && words >> number) return number;
  }
  return otherwise;
}

int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : kUnknown;  // "max" is no number
}

int64_t meminfo_bytes(const std::string& root, std::string_view key) {
  const int64_t kib = number_after(root + "/proc/meminfo", key, kUnknown);
  return kib == kUnknown ? kUnknown : kib * 1024;
}

// How a version of control groups names its files.
struct GroupFiles {
  const char* mount;
  const char* limit;
  const char* used;
  const char* inactive;
  const char* active;
};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                  "memory.usage_in_bytes", "total_inactive_file",
                                  "total_active_file"};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file",
                                  "active_file"};

void apply_limit(const std::string& folder, const GroupFiles& files, HostMemory& memory) {
  const int64_t limit = number_in(folder + files.limit);
  const int64_t used = number_in(folder + files.used);
  if (limit == kUnknown || used == kUnknown) return;
  const std::string stat = folder + "memory.stat";
  const int64_t cached =
      number_after(stat, files.inactive, 0) + number_after(stat, files.active, 0);
  const int64_t left = std::max<int64_t>(0, limit - std::max<int64_t>(0, used - cached));
  if (limit < memory.total_bytes || left < memory.available_bytes) memory.group = folder;
  memory.total_bytes = std::min(memory.total_bytes, limit);
  memory.available_bytes = std::min(memory.available_bytes, left);
}

// The group and all above it: each may have a limit. Inside a container the path may be the
// host's, and only the topmost folder is there.
void apply_groups(const std::string& root, std::string path, const GroupFiles& files,
                  HostMemory& memory) {
  while (true) {
    while (path.ends_with('/')) path.pop_back();
    apply_limit(root + files.mount + path + "/", files, memory);
    if (path.empty()) return;
    path.erase(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  HostMemory memory{.total_bytes = meminfo_bytes(root, "MemTotal:"),
                    .available_bytes = meminfo_bytes(root, "MemAvailable:")};
  // "0::/user.slice/job" of version 2, "9:memory:/job" or "9:cpu,memory:/job" of version 1.
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string path1, path2;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") path2 = line.substr(second + 1);
    if (controllers.find(",memory,") != std::string::npos) path1 = line.substr(second + 1);
  }
  apply_groups(root, path1, kVersion1, memory);
  apply_groups(root, path2, kVersion2, memory);
  return memory;
}

int64_t available_memory_bytes() { return host_memory().available_bytes; }

int64_t total_memory_bytes() { return host_memory().total_bytes; }

}  // namespace tessera

#include "comm/shm/host_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

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
  const char* events;
  const char* limit;
  const char* used;
  const char* inactive;
  const char* active;
};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "memory.oom_control",
                                  "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file",   "total_active_file"};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.events", "memory.max",
                                  "memory.current", "inactive_file", "active_file"};

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

// The folders of a group and of all above it, its own first. Inside a container the path may be the
// host's, and only the topmost folder is there.
std::vector<std::string> folders_of(const std::string& root, const GroupFiles& files,
                                    std::string path) {
  std::vector<std::string> folders;
  while (true) {
    while (path.ends_with('/')) path.pop_back();
    folders.push_back(root + files.mount + path + "/");
    if (path.empty()) return folders;
    path.erase(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

// Where this process is, in each version of control groups.
struct OwnGroups {
  std::vector<std::string> folders1;
  std::vector<std::string> folders2;
};

OwnGroups own_groups(const std::string& root) {
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
  return {folders_of(root, kVersion1, path1), folders_of(root, kVersion2, path2)};
}

// The count of the innermost group that has one: those above it count what is in it too.
std::optional<int64_t> kills_in(const std::vector<std::string>& folders, const GroupFiles& files) {
  for (const std::string& folder : folders) {
    const int64_t kills = number_after(folder + files.events, "oom_kill", kUnknown);
    if (kills != kUnknown) return kills;
  }
  return std::nullopt;
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  HostMemory memory{.total_bytes = meminfo_bytes(root, "MemTotal:"),
                    .available_bytes = meminfo_bytes(root, "MemAvailable:")};
  const OwnGroups groups = own_groups(root);
  for (const std::string& folder : groups.folders1) apply_limit(folder, kVersion1, memory);
  for (const std::string& folder : groups.folders2) apply_limit(folder, kVersion2, memory);
  return memory;
}

std::optional<MemoryKills> memory_kills(const std::string& root) {
  const int64_t machine = number_after(root + "/proc/vmstat", "oom_kill", kUnknown);
  const OwnGroups groups = own_groups(root);
  std::optional<int64_t> group = kills_in(groups.folders2, kVersion2);
  if (!group) group = kills_in(groups.folders1, kVersion1);
  if (machine == kUnknown && !group) return std::nullopt;
  return MemoryKills{.machine = machine == kUnknown ? 0 : machine, .group = group.value_or(0)};
}

int64_t available_memory_bytes() { return host_memory().available_bytes; }

int64_t total_memory_bytes() { return host_memory().total_bytes; }

}  // namespace tessera

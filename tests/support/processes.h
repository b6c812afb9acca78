// The processes that a command started, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tessera::testing {

// Polls until `done` or the time is over; says which.
inline bool wait_until(const std::function<bool()>& done,
                       std::chrono::seconds limit = std::chrono::seconds(30)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// State letter and parent of a process; state 0 where it is gone.
struct ProcessStat {
  char state = 0;
  pid_t parent = 0;
};
inline ProcessStat stat_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  // One that ends meanwhile makes reading fail, which an istreambuf_iterator throws.
  std::string text(4096, '\0');
  file.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(file.gcount()));
  const size_t name_end = text.rfind(')');  // the name may hold anything
  ProcessStat stat;
  if (name_end == std::string::npos) return stat;
  std::istringstream fields(text.substr(name_end + 1));
  fields >> stat.state >> stat.parent;
  return stat;
}

inline bool is_running(pid_t pid) {
  const char state = stat_of(pid).state;
  return state != 0 && state != 'Z' && state != 'X';
}

inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || *end != '\0' || stat_of(pid).parent != parent) continue;
    children.push_back(pid);
  }
  return children;
}

// What the process was started with: the value of "NAME=", or nothing.
inline std::optional<std::string> variable_of(pid_t pid, const std::string& name) {
  std::ifstream variables("/proc/" + std::to_string(pid) + "/environ");
  for (std::string variable; std::getline(variables, variable, '\0');) {
    if (variable.starts_with(name)) return variable.substr(name.size());
  }
  return std::nullopt;
}

// Pids of the ranks that the agent `parent` has started, by rank; not those that were spares.
inline std::map<int, pid_t> ranks_of(pid_t parent) {
  std::map<int, pid_t> ranks;
  for (const pid_t child : children_of(parent)) {
    const std::optional<std::string> rank = variable_of(child, "TESSERA_RANK=");
    if (rank) ranks[std::stoi(*rank)] = child;
  }
  return ranks;
}

}  // namespace tessera::testing

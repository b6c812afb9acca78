// The processes that a command started, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>

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
  std::string text((std::istreambuf_iterator<char>(file)), {});
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

// Pids of the ranks that the agent `parent` has started, by rank.
inline std::map<int, pid_t> ranks_of(pid_t parent) {
  std::map<int, pid_t> ranks;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || *end != '\0' || stat_of(pid).parent != parent) continue;
    std::ifstream variables(entry.path() / "environ");
    for (std::string variable; std::getline(variables, variable, '\0');) {
      if (variable.starts_with("TESSERA_RANK=")) ranks[std::stoi(variable.substr(13))] = pid;
    }
  }
  return ranks;
}

}  // namespace tessera::testing

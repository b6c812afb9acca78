#include "studio/browser.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <string_view>
#include <vector>

namespace tessera {
namespace {

constexpr std::string_view kOpener = "xdg-open";

std::string find_program(std::string_view name, const Environment& environment) {
  const auto path = environment.find("PATH");
  if (path == environment.end()) return "";
  std::string_view rest = path->second;
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string program = std::string(rest.substr(0, end)) + "/" + std::string(name);
    if (program.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return "";
}

// Started in a group of its own, so that ^C does not reach it, and without our terminal.
bool start_alone(const std::vector<std::string>& words, const Environment& environment) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  const auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
  };
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, file, "/dev/null", O_RDWR, 0);
  }
  pid_t pid = 0;
  const int failure = posix_spawn(&pid, words.front().c_str(), &actions, &attributes,
                                  pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return failure == 0;
}

}  // namespace

bool open_in_browser(const std::string& link, const Environment& environment) {
  const std::string program = find_program(kOpener, environment);
  return !program.empty() && start_alone({program, link}, environment);
}

}  // namespace tessera

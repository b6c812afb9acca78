#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "launch/environment.h"
#include "tensor/machine_folders.h"

namespace tessera {

int run_program(int argc, char** argv, AddCommands add) {
  std::ios::sync_with_stdio(false);
  // A file that grows beyond the limit ('ulimit -f') is an error of who writes it, as a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  const Environment environment = environment_from(environ);
  const auto value_of = [&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  use_folders(folders_from(value_of));
  Console console{.out = std::cout, .err = std::cerr};
  const bool dumb = value_of("TERM") == "dumb";  // it knows no escape sequences
  console.err_is_terminal = isatty(STDERR_FILENO) == 1 && !dumb;
  console.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  if (console.out_is_terminal) console.out_columns = columns_of(STDOUT_FILENO);
  console.err_columns = [] { return columns_of(STDERR_FILENO); };
  console.color_wanted = value_of("NO_COLOR").empty() && !dumb;
  return run_cli({argv + 1, argv + argc}, console, environment, add);
}

}  // namespace tessera

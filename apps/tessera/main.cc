// The tessera program. The environment is read here and nowhere below.
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "launch/environment.h"
#include "tensor/machine_folders.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const tessera::Environment environment = tessera::environment_from(environ);
  const auto value_of = [&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  tessera::use_folders(tessera::folders_from(value_of));
  tessera::Console console{.out = std::cout, .err = std::cerr};
  const bool dumb = value_of("TERM") == "dumb";  // it knows no escape sequences
  console.err_is_terminal = isatty(STDERR_FILENO) == 1 && !dumb;
  console.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  if (console.out_is_terminal) console.out_columns = tessera::columns_of(STDOUT_FILENO);
  console.err_columns = [] { return tessera::columns_of(STDERR_FILENO); };
  console.color_wanted = value_of("NO_COLOR").empty() && !dumb;
  return tessera::run_cli({argv + 1, argv + argc}, console, environment);
}

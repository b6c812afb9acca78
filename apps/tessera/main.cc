// The tessera program. The environment is read here and nowhere below.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "cli.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string(term) == "dumb";
  tessera::Console console{.out = std::cout, .err = std::cerr};
  console.err_is_terminal = isatty(STDERR_FILENO) == 1 && !dumb;
  console.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  console.color_wanted = no_color == nullptr || *no_color == '\0';
  return tessera::run_cli({argv + 1, argv + argc}, console);
}

// The command line without a process, for tests.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "all_commands.h"
#include "cli/cli.h"

namespace tessera {

struct Ended {
  int code = 0;
  std::string out, err;
};

inline Ended run_in_process(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const int code = run_cli(args, console, {}, add_all_commands);
  return {code, std::move(out).str(), std::move(err).str()};
}

}  // namespace tessera

// A subcommand: an options struct, a function that adds its flags to the tree, and a `run` that
// tests call directly. `run` writes data to console.out and returns the exit code; failures are
// thrown. CLI11 itself is read by the sources of cli/ alone.
#pragma once

#include <functional>

#include "cli/terminal.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tessera {

// A node of the tree and what it does once the line is parsed.
struct Command {
  CLI::App* app = nullptr;
  std::function<int(Console&)> run;
};

}  // namespace tessera

// `tessera studio`.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "launch/environment.h"

namespace tessera {

struct StudioOptions {
  std::vector<std::string> runs;  // run directories, or folders of them; none: "runs"
  int64_t port = 0;               // 0: the usual one, or any other that is free
  std::string host = "127.0.0.1";
  std::string token;
  bool open = false;
  std::string export_to;  // empty: serve
};
// The environment must outlive the command: it says where programs are, for --open.
Command add_studio(CLI::App& root, const Environment& environment);

// Serves until a signal ends it. Returns its exit code.
int run_studio(const StudioOptions& options, const Environment& environment, Console& console);

}  // namespace tessera

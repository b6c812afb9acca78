// `tessera data`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"

namespace tessera {

struct SynthOptions {
  int64_t seed = 1;
  int64_t bytes = 4'000'000;
  std::string output = "-";  // "-": standard output
};
std::vector<Command> add_data(CLI::App& root);
int run_synth(const SynthOptions& options, Console& console);

}  // namespace tessera

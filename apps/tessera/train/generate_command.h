// `tessera generate`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace tessera {

struct GenerateCommandOptions {
  std::string run_dir;
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: the most likely token
  int64_t top_k = 0;         // 0: all
  int64_t seed = 1;
  bool json = false;
};
Command add_generate(CLI::App& root);
int run_generate(const GenerateCommandOptions& options, Console& console);

}  // namespace tessera

// `tessera generate`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "text/batch_run.h"
#include "text/model_flags.h"
#include "text/sampling_flags.h"

namespace tessera {

struct GenerateCommandOptions {
  ModelFlags model;
  SamplingFlags sampling;
  std::string prompt;
  bool token_ids = false;
  bool json = false;
  BatchFiles files;  // none: the prompt alone
  int64_t in_flight = 128;
};
Command add_generate(CLI::App& root);
int run_generate(const GenerateCommandOptions& options, Console& console);

}  // namespace tessera

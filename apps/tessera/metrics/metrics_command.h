// `tessera metrics`.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "launch/environment.h"

namespace tessera {

struct MetricsOptions {
  std::vector<std::string> runs;  // folders, or files of metrics
  std::string key = "loss";
  std::string x = "step";
  double smooth = 0;
  bool logarithmic = false;
  int64_t width = 0;  // columns; 0: the terminal's
  std::string svg;
  std::string csv;  // "-": standard output
  std::string tensorboard;
  bool json = false;
};
// The environment must outlive the command: it says whether the terminal shows UTF-8.
Command add_metrics(CLI::App& root, const Environment& environment);
int run_metrics(const MetricsOptions& options, const Environment& environment, Console& console);

}  // namespace tessera

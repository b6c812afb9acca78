// `tessera export-hf`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace tessera {

struct ExportCommandOptions {
  std::string source;
  std::string out;
  int64_t shard_bytes = 5'000'000'000;
  bool json = false;
};
Command add_export_hf(CLI::App& root);
int run_export_hf(const ExportCommandOptions& options, Console& console);

}  // namespace tessera

// `tessera doctor`.
#pragma once

#include <string>

#include "cli/command.h"

namespace tessera {

struct DoctorOptions {
  bool json = false;
  std::string run_dir = "runs";
};
Command add_doctor(CLI::App& root);
int run_doctor(const DoctorOptions& options, Console& console);

}  // namespace tessera

// `tessera checkpoint ls|show|verify|diff`.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace tessera {

struct CheckpointOptions {
  std::string path;   // a run directory, a folder of checkpoints, or one of them
  std::string other;  // diff: likewise
  bool deep = false;
  bool json = false;
};
std::vector<Command> add_checkpoint(CLI::App& root);
int run_checkpoint_ls(const CheckpointOptions& options, Console& console);
int run_checkpoint_show(const CheckpointOptions& options, Console& console);
int run_checkpoint_verify(const CheckpointOptions& options, Console& console);
int run_checkpoint_diff(const CheckpointOptions& options, Console& console);

}  // namespace tessera

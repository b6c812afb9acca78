// `tessera checkpoint ls|show|verify|diff|reshard`.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "spec/run_file/run_source.h"

namespace tessera {

struct CheckpointOptions {
  std::string path;   // a run directory, a folder of checkpoints, or one of them
  std::string other;  // diff: likewise
  bool deep = false;
  bool allow_unchecked = false;  // files of checksums may be missing
  bool json = false;
};
struct ReshardOptions {
  std::string path;  // as above
  RunSource source;  // the run, with the mesh that the new checkpoint is for
  std::string out;   // folder of checkpoints
  bool allow_unchecked = false;
  bool json = false;
};
std::vector<Command> add_checkpoint(CLI::App& root);
Command add_checkpoint_reshard(CLI::App& checkpoint);
int run_checkpoint_ls(const CheckpointOptions& options, Console& console);
int run_checkpoint_show(const CheckpointOptions& options, Console& console);
int run_checkpoint_verify(const CheckpointOptions& options, Console& console);
int run_checkpoint_diff(const CheckpointOptions& options, Console& console);
int run_checkpoint_reshard(const ReshardOptions& options, Console& console);

}  // namespace tessera

#include "train/preflight/run_outputs.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/text/text.h"
#include "checkpoint/safetensors.h"
#include "train/weights/stored_tensors.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A line of metrics.jsonl, and what plan.json and summary.json have of a rank, at most about this.
constexpr int64_t kBytesOfLine = 400;
constexpr int64_t kBytesOfRank = 16 << 10;
// A run with more steps is meant to be stopped by hand: nobody knows when.
constexpr int64_t kMostLines = 1'000'000;

// A weight with its states.
int64_t state_bytes(const RunSpec& spec) {
  const DType dtype = spec.train.dtype;
  const int64_t wide = size_bytes(accumulate_type(dtype));
  const int64_t master = dtype == DType::kBF16 ? 2 : dtype == DType::kF16 ? wide : 0;
  return size_bytes(dtype) + spec.optimizer.states() * wide + master;
}

// An old one goes when a newer one is there. Another folder may be on another disk.
int64_t saves_at_once(const RunSpec& spec) {
  const CheckpointSpec& checkpoint = spec.checkpoint;
  if (!checkpoint.on() || !checkpoint.dir.empty()) return 0;
  const bool all_fit = checkpoint.every > 0 && checkpoint.every_minutes == 0;
  const int64_t made = all_fit ? spec.train.steps / checkpoint.every + 1 : checkpoint.keep + 1;
  return std::min(made, checkpoint.keep + 1);
}

}  // namespace

FolderState look_at_folder(const std::string& path) {
  std::error_code failure;
  fs::path at = fs::absolute(path, failure).lexically_normal();
  while (!fs::exists(at, failure) && at.has_relative_path()) at = at.parent_path();
  FolderState state{.nearest = at.string()};
  state.is_folder = fs::is_directory(at, failure);
  state.writable = ::access(at.c_str(), W_OK | X_OK) == 0;
  struct statvfs disk = {};
  // A disk that does not tell is not known to be full.
  const bool known = ::statvfs(at.c_str(), &disk) == 0;
  state.free_bytes = known ? static_cast<int64_t>(disk.f_bavail * disk.f_frsize) : INT64_MAX;
  return state;
}

void require_writable(const std::string& path, const FolderState& state,
                      const std::string& setting) {
  require_config(state.is_folder, "cannot create the folder '{}': '{}' is not a folder; set {}",
                 path, state.nearest, setting);
  require_config(state.writable, "cannot write in the folder '{}': '{}' is not writable; set {}",
                 path, state.nearest, setting);
}

RunOutput output_of(const RunSpec& spec) {
  std::vector<TensorHead> heads;
  const auto layout = layout_parameters(spec, mesh_of(spec.parallel));
  for (const StoredShape& one : stored_shapes(layout)) {
    heads.push_back({one.name, stored_type(spec.train.dtype), one.shape});
  }
  const int64_t lines =
      std::min(kMostLines, spec.train.steps / std::max<int64_t>(1, spec.logging.every) + 1);
  return {.weights_bytes = safetensors_file_bytes(std::move(heads), {{"format", "pt"}}),
          .log_bytes = lines * kBytesOfLine + spec.parallel.world() * kBytesOfRank,
          .save_bytes = layout.num_parameters * state_bytes(spec) * saves_at_once(spec)};
}

std::string disk_shortage(const std::string& path, const FolderState& state,
                          const RunOutput& output) {
  const int64_t needed = output.weights_bytes + output.log_bytes + output.save_bytes;
  if (needed <= state.free_bytes) return "";
  return fmt::format(
      "the disk of '{}' has {} free, but the run writes about {}: weights of {} bytes and {} of "
      "logs{}; free some of it or set logging.run_dir",
      path, human_bytes(state.free_bytes), human_bytes(needed),
      with_thousands(output.weights_bytes), human_bytes(output.log_bytes),
      output.save_bytes == 0 ? ""
                             : fmt::format(", and {} of checkpoints (checkpoint.keep)",
                                           human_bytes(output.save_bytes)));
}

}  // namespace tessera

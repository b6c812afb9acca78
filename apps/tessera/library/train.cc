#include <fmt/ranges.h>

#include <filesystem>

#include "api/plan.h"
#include "base/error.h"
#include "library/surroundings.h"
#include "plan/report/misfit_text.h"
#include "spec/run_file/run_source.h"
#include "spec/run_file/trainable.h"
#include "train/directory/run_claim.h"
#include "train/machine_defaults.h"
#include "train/preflight/local_memory.h"
#include "train/preflight/run_inputs.h"
#include "train/preflight/run_outputs.h"
#include "train/session/session.h"

namespace tessera {
namespace {

// What would make a run fit, as elements of Training::set.
std::string settings_of(const FitChange& change) {
  return fmt::format("{}", fmt::join(change.settings, ", "));
}

RunSource source_of(const Training& training) {
  RunSource source;
  source.file = training.run_file.empty() ? "run.toml" : training.run_file;
  source.overrides = training.set;
  source.mesh = training.mesh;
  require_config(!training.run_file.empty() || !training.run_text.empty(),
                 "nothing to train: give run_file, a path, or run_text, the run itself");
  return source;
}

FileReader reader_of(const Training& training, const std::string& run_file) {
  return [&training, run_file, outside = library::surroundings().read](const std::string& path) {
    if (path == run_file && !training.run_text.empty()) return training.run_text;
    return outside(path);
  };
}

TrainOptions options_of(const Training& training) {
  const RunSource source = source_of(training);
  const FileReader read = reader_of(training, source.file);
  TrainOptions options;
  options.spec = source.load(read);
  options.config_text = source.text(read);
  require_trainable(options.spec.model);
  choose_device(options.spec);
  std::error_code missing;
  options.rescue_dir = std::filesystem::temp_directory_path(missing);
  return options;
}

void refuse_unless_forced(const Training& training, const std::string& why, ExitCode code) {
  if (!why.empty() && !training.force) throw Error(why + "\n`force` starts it nevertheless", code);
}

// What can be known to go wrong later, in the order of the command.
void check_before_start(const Training& training, const RunSpec& spec,
                        const RunDirectoryRequest& place) {
  const int64_t text_bytes = check_inputs(spec);
  const std::string run_dir = find_run_directory(place);
  const FolderState folder = look_at_folder(run_dir);
  require_writable(run_dir, folder, "logging.run_dir");
  require_gpu_for_threads(spec);
  const RunSource source = source_of(training);
  const LocalMemory memory = look_at_memory(
      {.spec = spec,
       .text_bytes = text_bytes,
       .open = [&] { return open_settings_of(source, reader_of(training, source.file)); },
       .misfit = [](const Plan& plan) { return misfit_text(plan, settings_of); }});
  refuse_unless_forced(training, memory.shortage, ExitCode::kDoesNotFit);
  refuse_unless_forced(training, disk_shortage(run_dir, folder, output_of(spec)), ExitCode::kUsage);
}

}  // namespace

Json train(const Training& training, const OnTrainedStep& on_step) {
  return library::refusing([&] {
    TrainOptions options = options_of(training);
    const RunDirectoryRequest place{.path = options.spec.logging.run_dir,
                                    .name = run_name_of(source_of(training).file),
                                    .weights_from = options.spec.model.hf};
    check_before_start(training, options.spec, place);
    const ClaimedDirectory claim = claim_run_directory(place);
    options.spec.logging.run_dir = claim.path();
    options.run_dir_claimed = true;
    bool stop = false;  // both are called on the same thread
    if (on_step) {
      options.on_progress = [&](const TrainProgress& now) {
        stop = !on_step({now.step, now.steps, now.loss, now.grad_norm, now.lr, now.tokens_per_s});
      };
      options.should_stop = [&] { return stop; };
    }
    return run_training(options).measured;
  });
}

}  // namespace tessera

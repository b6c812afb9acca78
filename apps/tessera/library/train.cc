#include <filesystem>

#include "base/error.h"
#include "library/surroundings.h"
#include "spec/run_file/run_source.h"
#include "spec/run_file/trainable.h"
#include "train/machine_defaults.h"
#include "train/session/session.h"

namespace tessera {
namespace {

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
  const std::string& data = options.spec.data.path;
  require_config(data.empty() || std::filesystem::exists(data),
                 "data '{}' does not exist: name a text file or a folder of text files", data);
  choose_device(options.spec);
  return options;
}

}  // namespace

Json train(const Training& training, const OnTrainedStep& on_step) {
  return library::refusing([&] {
    TrainOptions options = options_of(training);
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

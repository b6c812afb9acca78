#include "serve/testing/start_scene.h"

#include <utility>

#include "compile/testing/test_spec.h"
#include "train/session/session.h"

namespace tessera::serve::testing {

StartOptions start_options(const std::string& model) {
  StartOptions options;
  options.ranks.model = model;
  options.ranks.dtype = DType::kF64;
  options.ranks.threads = 1;
  options.ranks.memory_bytes = int64_t{64} << 20;
  options.ranks.max_tokens = 32;
  options.ranks.timeout = std::chrono::milliseconds(20'000);
  return options;
}

std::string train_run(const tessera::testing::TestFolder& folder, const std::string& mesh,
                      int64_t vocab) {
  return train_run(folder, mesh, [vocab](RunSpec& spec) { spec.model.vocab = vocab; });
}

std::string train_run(const tessera::testing::TestFolder& folder, const std::string& mesh,
                      const std::function<void(RunSpec& spec)>& change) {
  TrainOptions options;
  options.spec = tessera::testing::small_spec(mesh);
  RunSpec& spec = options.spec;
  spec.model.init_std = 0.3;  // so that texts differ from token to token
  spec.model.vocab = 256;
  spec.train.dtype = DType::kF64;
  spec.train.seq_len = 32;
  spec.train.global_batch = 4;
  spec.train.micro_batch = 1;
  spec.train.steps = 2;
  spec.optimizer.lr = 1e-2;
  spec.data.synth_bytes = 20'000;
  spec.checkpoint.every = 2;
  spec.logging.run_dir = folder.path("run");
  change(spec);
  resolve(spec);
  (void)run_training(options);
  return folder.path("run");
}

}  // namespace tessera::serve::testing

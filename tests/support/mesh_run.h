// All ranks of a tiny run as threads of the test, with what they keep saved and loaded between
// steps.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/store/committer.h"
#include "runtime/world.h"
#include "support/tiny.h"
#include "train/session/checkpoint_save.h"
#include "train/session/step_params.h"
#include "train/session/weights.h"
#include "train/state/rank_state.h"

namespace tessera::testing {

class MeshRun {
 public:
  explicit MeshRun(const std::string& line)
      : case_(parse_case(line + " steps=6")),
        samples_(random_samples(case_.spec, "none")),
        world_(build_step(case_.spec, StepKind::kTraining)),
        layout_(lay_out_state(world_.step())) {}

  void begin() {
    world_.run([&](int, Executor& executor) {
      load_weights(executor, world_.step(), initial_weights(case_.spec.model, 5));
    });
  }
  // `look` is told what a rank wanted and what was read for it, one rank at a time.
  using Look = std::function<void(std::span<const WantedBox>, const ReadFigures&)>;
  void resume(const FileOps& files, const CheckpointFolder& checkpoint, const Look& look = {}) {
    std::mutex mutex;
    world_.run([&](int, Executor& executor) {
      load_state(executor, world_.step(), layout_, [&](std::span<const WantedBox> wanted) {
        const ReadFigures figures = read_boxes(files, checkpoint, wanted);
        const std::scoped_lock lock(mutex);
        if (look) look(wanted, figures);
      });
    });
  }
  // The same rank after rank, on the thread of the caller.
  void resume_in_turn(const FileOps& files, const CheckpointFolder& checkpoint, const Look& look) {
    for (int rank = 0; rank < world_.size(); ++rank) {
      load_state(world_.executor(rank), world_.step(), layout_,
                 [&](std::span<const WantedBox> wanted) {
                   look(wanted, read_boxes(files, checkpoint, wanted));
                 });
    }
  }
  // Steps (after, last].
  void train(int64_t after, int64_t last) {
    world_.run([&](int, Executor& executor) {
      for (int64_t step = after + 1; step <= last; ++step) {
        fill_inputs(executor, case_.spec, step, samples_);
        (void)executor.run(step_params(case_.spec, step));
      }
    });
  }
  // What every rank says.
  std::vector<std::string> try_save(FileOps& files, int64_t step) {
    const CheckpointPlan plan(world_.step());
    LocalWorld control({.size = world_.size()});
    std::vector<std::string> failures(static_cast<size_t>(world_.size()));
    world_.run([&](int rank, Executor& executor) {
      failures[static_cast<size_t>(rank)] =
          save_checkpoint(files, plan, {"run1", 1, "s" + std::to_string(step)}, step, {{"seed", 5}},
                          executor, *control.endpoint(rank).join_all("control"));
    });
    return failures;
  }
  void save(FileOps& files, int64_t step) {
    for (const std::string& failure : try_save(files, step)) EXPECT_EQ(failure, "");
  }

 private:
  TinyCase case_;
  SampleSource samples_;
  World world_;
  StateLayout layout_;
};

}  // namespace tessera::testing

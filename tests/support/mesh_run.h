// All ranks of a tiny run as threads of the test, with what they keep saved and loaded between
// steps.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/store/committer.h"
#include "runtime/world.h"
#include "support/tiny.h"
#include "train/save/checkpoint_save.h"
#include "train/session/step_params.h"
#include "train/state/rank_state.h"
#include "train/weights/weights.h"

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
  // What a rank was asked to read into, in one call.
  struct ReadSizes {
    int64_t reads = 0, bytes = 0, most_bytes = 0, largest_buffer_bytes = 0;
    size_t most_buffers = 0;
  };
  std::vector<ReadSizes> resume_and_count(const FileOps& files,
                                          const CheckpointFolder& checkpoint) {
    std::vector<ReadSizes> all(static_cast<size_t>(world_.size()));
    world_.run([&](int rank, Executor& executor) {
      ReadSizes& sizes = all[static_cast<size_t>(rank)];
      for (const BucketBuffers& bucket : executor.program().buckets) {
        for (const BufferId id : {bucket.full, bucket.weights, bucket.m, bucket.v, bucket.master}) {
          if (id == kNoBuffer) continue;
          sizes.largest_buffer_bytes =
              std::max(sizes.largest_buffer_bytes, executor.view(id).tensor.bytes());
        }
      }
      load_state(executor, world_.step(), layout_, [&](std::span<const WantedBox> wanted) {
        std::set<const std::byte*> buffers;
        int64_t bytes = 0;
        for (const WantedBox& box : wanted) {
          buffers.insert(box.memory);
          bytes += volume(box.place.box) * size_bits(box.type) / 8;
        }
        ++sizes.reads;
        sizes.bytes += bytes;
        sizes.most_bytes = std::max(sizes.most_bytes, bytes);
        sizes.most_buffers = std::max(sizes.most_buffers, buffers.size());
        read_boxes(files, checkpoint, wanted);
      });
    });
    return all;
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

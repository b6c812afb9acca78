// How the V schedules write the list of a rank. Rank r holds two chunks: stage r on the way down
// and stage 2 * ranks - 1 - r on the way back, so the first rank has both the embedding and the
// head.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compile/pipeline/schedule/named_schedule.h"

namespace tessera {

enum class Chunk : uint8_t { kDown, kUp };

// Each call appends the next micro-batch of that chunk and pass.
class VRank {
 public:
  VRank(const PipelineShape& shape, int rank) : stages_({rank, shape.stages() - 1 - rank}) {}

  void forward(Chunk chunk) { append(StagePass::kForward, chunk, of(chunk).forwards++); }
  void backward(Chunk chunk) { append(StagePass::kBackward, chunk, of(chunk).input_grads++); }
  // Its weight gradient is due later.
  void input_grad(Chunk chunk) {
    due_.push_back({chunk, of(chunk).input_grads});
    append(StagePass::kInputGrad, chunk, of(chunk).input_grads++);
  }
  // The oldest one that is due, of either chunk or of one; there must be one.
  void weight_grad() { weight_grad_at(due_.begin()); }
  void weight_grad(Chunk chunk) {
    weight_grad_at(std::find_if(due_.begin(), due_.end(),
                                [chunk](const Due& due) { return due.chunk == chunk; }));
  }

  [[nodiscard]] int forwards(Chunk chunk) const {
    return counts_[static_cast<size_t>(chunk)].forwards;
  }
  [[nodiscard]] bool is_due(Chunk chunk) const {
    return std::any_of(due_.begin(), due_.end(),
                       [chunk](const Due& due) { return due.chunk == chunk; });
  }
  std::vector<StageAction> finish() { return std::move(actions_); }

 private:
  struct Counts {
    int forwards = 0;
    int input_grads = 0;
  };
  Counts& of(Chunk chunk) { return counts_[static_cast<size_t>(chunk)]; }
  struct Due {
    Chunk chunk;
    int micro_batch;
  };
  void weight_grad_at(std::deque<Due>::iterator due) {
    TESSERA_CHECK(due != due_.end(), "no weight gradient is due");
    append(StagePass::kWeightGrad, due->chunk, due->micro_batch);
    due_.erase(due);
  }
  void append(StagePass pass, Chunk chunk, int micro_batch) {
    actions_.push_back({pass, stages_[static_cast<size_t>(chunk)], micro_batch});
  }

  std::array<int, 2> stages_;
  std::array<Counts, 2> counts_;
  std::deque<Due> due_;
  std::vector<StageAction> actions_;
};

}  // namespace tessera

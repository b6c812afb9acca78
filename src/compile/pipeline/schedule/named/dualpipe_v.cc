#include <algorithm>

#include "base/error.h"
#include "compile/pipeline/schedule/v_rank.h"

namespace tessera {

TESSERA_SCHEDULE(80, kDualPipeV, "dualpipe-v", .virtual_stages = 2);

namespace {

class DualPipeV {
 public:
  DualPipeV(const PipelineShape& shape, int rank)
      : v_(shape, rank), micro_batches_(shape.micro_batches), ranks_(shape.ranks), rank_(rank) {}

  std::vector<StageAction> actions() {
    fill();
    steady();
    drain();
    return v_.finish();
  }

 private:
  void fill() {
    for (int i = 0; i < 2 * behind(); ++i) v_.forward(Chunk::kDown);
    for (int i = 0; i < rank_ + 1; ++i) {
      v_.forward(Chunk::kDown);
      v_.forward(Chunk::kUp);
    }
    for (int i = 0; i < behind(); ++i) {
      v_.input_grad(Chunk::kUp);
      v_.weight_grad();
      v_.forward(Chunk::kUp);
    }
  }

  // A forward and the backward of another micro-batch side by side: the communication of one hides
  // behind the other's compute.
  void steady() {
    for (int i = 0; i < micro_batches_ - 2 * ranks_ + rank_ + 1; ++i) {
      v_.forward(Chunk::kDown);
      v_.backward(Chunk::kUp);
      v_.forward(Chunk::kUp);
      v_.backward(Chunk::kDown);
    }
    for (int i = 0; i < behind(); ++i) {
      v_.backward(Chunk::kUp);
      v_.forward(Chunk::kUp);
      v_.backward(Chunk::kDown);
    }
  }

  // The second half keeps its weight gradients for the wait at the end.
  void drain() {
    const int last = 2 * (rank_ + 1);
    for (int i = 0; i < last; ++i) {
      const Chunk chunk = i % 2 == 0 ? Chunk::kUp : Chunk::kDown;
      if (i < rank_ + 1) {
        v_.backward(chunk);
      } else {
        v_.input_grad(chunk);
      }
    }
    for (int i = 0; i < behind(); ++i) {
      v_.weight_grad();
      v_.input_grad(Chunk::kDown);
    }
    for (int i = 0; i < rank_ + 1; ++i) v_.weight_grad();
  }

  [[nodiscard]] int behind() const { return ranks_ - rank_ - 1; }

  VRank v_;
  int micro_batches_;
  int ranks_;
  int rank_;
};

void check(const PipelineShape& shape) {
  require_config(
      shape.micro_batches >= 2 * shape.ranks,
      "schedule dualpipe-v: {} micro-batches, but the two ends of the pipeline fill with "
      "2 for each of the {} ranks; use {} micro-batches, or schedule = \"zb-v\"",
      shape.micro_batches, shape.ranks, 2 * shape.ranks);
}

// DualPipeV (DeepSeek, 2025): DualPipe cut in half and folded into a V, one copy of the weights.
std::vector<StageAction> rank_actions(const PipelineShape& shape, int rank) {
  return DualPipeV(shape, rank).actions();
}

int64_t live(const PlaceInPipeline& at) {
  return std::min(at.micro_batches * at.virtual_stages, at.ranks * at.virtual_stages + 1);
}

double idle(int64_t /*virtual_stages*/, double weight) { return std::max(0.0, 1 - 3 * weight); }

}  // namespace

template <>
NamedSchedule define_schedule<PipelineKind::kDualPipeV>() {
  return {.actions = rank_actions,
          .placement = StagePlacement::kV,
          .check = check,
          .live = live,
          .idle = idle};
}

}  // namespace tessera

// One rank's side of serving: the Programs of all sizes of frames on one memory, and the weights.
// Needs its end of a world and the plan, and nothing of how ranks are started: threads
// (serve/ranks/local_frames.h) and processes use it alike.
//
//   const RunSpec model = fill_options(options);
//   const ServePlan plan = plan_serving(model, options);
//   RankFrames rank(world, plan, weights_of(plan));   // on the thread that runs the frames
//   for (...) FrameResult result = rank.run(frame);   // every rank, the same frames in one order
//
// A stage of a pipeline gives a frame to the next stage and returns, so that frames are under way
// on all stages at once. A failure of any rank aborts the world, so that all leave their waits, and
// is thrown on each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/world.h"
#include "compile/program/program.h"
#include "serve/frame.h"
#include "serve/plan/serve_plan.h"
#include "serve/ranks/rank_worker.h"
#include "train/weights/load_from_disk.h"

namespace tessera::serve {

// Where the weights of a plan come from: its folder, run or checkpoint, which any mesh reads; or
// nowhere, where its options have a random_model.
WeightsLoader weights_of(const ServePlan& plan);

class RankFrames {
 public:
  // `world` has as many ranks as the plan; it and the plan must outlive this. Loads the weights.
  RankFrames(CommWorld& world, const ServePlan& plan, const WeightsLoader& weights);
  ~RankFrames();
  RankFrames(const RankFrames&) = delete;
  RankFrames& operator=(const RankFrames&) = delete;

  // Whether it is the rank whose results have tokens: plan.sampling_rank().
  [[nodiscard]] bool samples() const;

  // Throws InternalError for a frame that does not fit the shape, before anything is computed, and
  // CommError where another rank is lost or hangs.
  // `masks`: as in serve/ranks/rank_worker.h.
  FrameResult run(const Frame& frame, const AwaitMasks& masks = nullptr);

  // On the rank that samples: the logits of the rows of the last frame, [rows][vocab].
  [[nodiscard]] std::vector<std::vector<double>> logits() const;

  // How long the last frame waited for other stages.
  [[nodiscard]] StageWaits waits() const;
  // Measured: what the arenas were given, and what was sent since the start.
  [[nodiscard]] RankBytes bytes() const;
  [[nodiscard]] const LoadFigures& loaded() const;
  // That of the smallest frames; all of the rank's have the same weights and cache.
  [[nodiscard]] const Executor& executor() const;
  [[nodiscard]] std::vector<Traffic> traffic() const;
  // Identity of the instructions of the last frame; equal to that of the Program of its bucket.
  [[nodiscard]] std::string executed_digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::serve

#include "serve/machine/probe_rank.h"

#include "base/error.h"
#include "comm/local/local_world.h"
#include "runtime/executor.h"
#include "serve/ranks/frame_inputs.h"
#include "serve/ranks/rank_frames.h"
#include "train/machine/probe_programs.h"

namespace tessera::serve {

struct ProbeRank::State {
  explicit State(ServePlan plan_in)
      : plan(std::move(plan_in)),
        world({.size = 1,
               .timeout = plan.options.timeout,
               .busy_threads = static_cast<int>(plan.options.threads) + 1}),
        rank(world.endpoint(0), RankOptions{.threads = static_cast<int>(plan.options.threads)}) {
    TESSERA_CHECK(plan.world() == 1, "a probe of {} ranks", plan.world());
    rank.memory().share_room(plan.ranks.front().arenas);
    for (const BucketPlan& bucket : plan.buckets) {
      executors.push_back(std::make_unique<Executor>(rank, bucket.step, bucket.programs.front(),
                                                     ExecutorOptions{}));
    }
    weights_of(plan)(*executors.front(), plan.buckets.front().step);
  }

  Executor& executor_of(const Frame& frame) {
    return *executors[plan.bucket_of(std::ssize(frame.tokens), std::ssize(frame.sequences),
                                     std::ssize(frame.rows))];
  }

  Executor& run(const Frame& frame) {
    Executor& executor = executor_of(frame);
    fill_inputs(frame, plan.shape, executor);
    StepParams params;
    params.step = static_cast<int64_t>(frame.number);
    executor.run(params);
    return executor;
  }

  const ServePlan plan;
  LocalWorld world;
  Rank rank;
  std::vector<std::unique_ptr<Executor>> executors;  // by bucket
  uint64_t last = 0;                                 // frame that was run
};

ProbeRank::ProbeRank(ServePlan plan) : state_(std::make_unique<State>(std::move(plan))) {}
ProbeRank::~ProbeRank() = default;

const ServeShape& ProbeRank::shape() const { return state_->plan.shape; }

void ProbeRank::start(const Frame& frame) {
  check_frame(frame, state_->plan.shape);
  state_->run(frame);
  state_->last = frame.number;
}

void ProbeRank::allow(FrameMasks /*masks*/) {}

FrameResult ProbeRank::finish() { return {state_->last, {}}; }

const Program& ProbeRank::program_of(const Frame& frame) const {
  return state_->executor_of(frame).program();
}

std::vector<double> ProbeRank::time_instructions(const Frame& frame, int64_t repeats) {
  check_frame(frame, state_->plan.shape);
  Executor& executor = state_->run(frame);
  std::vector<std::vector<double>> seconds(executor.program().instructions.size());
  for (int64_t i = 0; i < repeats; ++i) {
    executor.time_instructions(true);
    state_->run(frame);
    for (size_t k = 0; k < seconds.size(); ++k) {
      seconds[k].push_back(executor.instruction_times()->seconds(k));
    }
  }
  executor.time_instructions(false);
  std::vector<double> medians;
  for (std::vector<double>& values : seconds) medians.push_back(median_of(std::move(values)));
  return medians;
}

}  // namespace tessera::serve

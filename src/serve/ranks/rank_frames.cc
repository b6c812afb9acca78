#include "serve/ranks/rank_frames.h"

#include <cstring>

#include "base/error.h"
#include "serve/ranks/choose_token.h"
#include "serve/ranks/frame_inputs.h"
#include "tensor/element.h"

namespace tessera::serve {
namespace {

RankOptions rank_options_of(const ServePlan& plan) {
  RankOptions options;
  options.threads = static_cast<int>(plan.options.threads);
  return options;
}

// An empty mask leaves the row as it came.
std::vector<FrameRow> masked_rows(const Frame& frame, FrameMasks masks) {
  std::vector<FrameRow> rows = frame.rows;
  TESSERA_CHECK(masks.number == frame.number && masks.rows.size() == rows.size(),
                "frame {} of {} rows got {} masks of frame {}", frame.number, rows.size(),
                masks.rows.size(), masks.number);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!masks.rows[i].empty()) rows[i].sampling.allowed = std::move(masks.rows[i]);
  }
  return rows;
}

}  // namespace

struct RankFrames::State {
  State(CommWorld& world_in, const ServePlan& plan_in)
      : world(world_in), plan(plan_in), rank(world_in, rank_options_of(plan_in)) {}

  [[nodiscard]] RankBytes planned() const { return plan.ranks[static_cast<size_t>(world.rank())]; }

  void make_executors() {
    rank.memory().share_room(planned().arenas);
    ExecutorOptions options;
    options.timeout = 2 * plan.options.timeout;  // longer than a wait for another rank
    for (const BucketPlan& bucket : plan.buckets) {
      executors.push_back(std::make_unique<Executor>(
          rank, bucket.step, bucket.programs[static_cast<size_t>(world.rank())], options));
    }
  }

  // On every layer of this rank.
  void copy_pages(const std::vector<PageCopy>& copies) {
    Executor& any = *executors.front();
    for (const BufferId id : any.program().serve.caches) {
      if (id == kNoBuffer || copies.empty()) continue;
      any.edit(id, [&](const Tensor& cache) {
        const int64_t bytes = cache.dim(1) * size_bytes(cache.dtype);
        for (const PageCopy& copy : copies) {
          std::memcpy(cache.as<std::byte>() + copy.to * bytes,
                      cache.as<std::byte>() + copy.from * bytes, static_cast<size_t>(bytes));
        }
      });
    }
  }

  CommWorld& world;
  const ServePlan& plan;
  Rank rank;
  std::vector<std::unique_ptr<Executor>> executors;  // by bucket
  const Executor* last = nullptr;                    // that ran
  size_t last_rows = 0;
  LoadFigures loaded;
};

WeightsLoader weights_of(const ServePlan& plan) {
  if (!plan.options.random_model.empty()) return loader_of(repeated_weights(plan.spec.model, 1));
  return loader_of(open_weights(plan.spec.model.hf, plan.buckets.front().step.layout));
}

RankFrames::RankFrames(CommWorld& world, const ServePlan& plan, const WeightsLoader& weights)
    : state_(std::make_unique<State>(world, plan)) {
  TESSERA_CHECK(world.size() == plan.world(), "a plan of {} ranks in a world of {}", plan.world(),
                world.size());
  state_->make_executors();
  state_->loaded = weights(*state_->executors.front(), plan.buckets.front().step);
}

RankFrames::~RankFrames() = default;

bool RankFrames::samples() const { return state_->world.rank() == state_->plan.sampling_rank(); }

FrameResult RankFrames::run(const Frame& frame, const AwaitMasks& masks) {
  State& s = *state_;
  check_frame(frame, s.plan.shape);
  const size_t bucket = s.plan.bucket_of(std::ssize(frame.tokens), std::ssize(frame.sequences),
                                         std::ssize(frame.rows));
  Executor& executor = *s.executors[bucket];
  s.copy_pages(frame.copies);
  fill_inputs(frame, s.plan.shape, executor);
  StepParams params;
  params.step = static_cast<int64_t>(frame.number);
  executor.reset_comm_times();
  executor.run(params);
  s.last = &executor;
  s.last_rows = frame.rows.size();
  FrameResult result{frame.number, {}};
  if (!samples()) return result;
  std::vector<FrameRow> masked;
  if (frame.masks_follow) masked = masked_rows(frame, masks());
  const std::vector<FrameRow>& rows = frame.masks_follow ? masked : frame.rows;
  const HostView logits = executor.view(executor.program().logits);
  for (size_t r = 0; r < frame.rows.size(); ++r) {
    result.tokens.push_back(
        choose_token(logits.tensor, static_cast<int64_t>(r), s.plan.shape.vocab, rows[r].sampling));
  }
  return result;
}

std::vector<std::vector<double>> RankFrames::logits() const {
  const State& s = *state_;
  std::vector<std::vector<double>> rows;
  if (s.last == nullptr || !samples()) return rows;
  const HostView view = s.last->view(s.last->program().logits);
  const Tensor& logits = view.tensor;
  const int64_t columns = logits.dim(2);
  for (size_t r = 0; r < s.last_rows; ++r) {
    std::vector<double>& row = rows.emplace_back();
    for (int64_t v = 0; v < s.plan.shape.vocab; ++v) {
      const int64_t at =
          (v / columns * logits.dim(1) + static_cast<int64_t>(r)) * columns + v % columns;
      row.push_back(read_element(logits, at));
    }
  }
  return rows;
}

StageWaits RankFrames::waits() const {
  StageWaits waits;
  if (state_->last == nullptr) return waits;
  for (const CommTime& time : state_->last->comm_times()) {
    const auto exposed = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(time.exposed_s));
    if (time.op == name_of(OpKind::kReceive)) waits.input += exposed;
    if (time.op == name_of(OpKind::kSend)) waits.output += exposed;
  }
  return waits;
}

RankBytes RankFrames::bytes() const {
  RankBytes bytes;
  for (const ArenaKind arena : kAllArenas) {
    bytes.arenas[static_cast<size_t>(arena)] = state_->executors.front()->arena_bytes(arena);
  }
  return bytes;
}

const LoadFigures& RankFrames::loaded() const { return state_->loaded; }
const Executor& RankFrames::executor() const { return *state_->executors.front(); }

std::vector<Traffic> RankFrames::traffic() const { return state_->executors.front()->traffic(); }

std::string RankFrames::executed_digest() const {
  return state_->last == nullptr ? "" : state_->last->executed_digest();
}

}  // namespace tessera::serve

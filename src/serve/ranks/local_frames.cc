#include "serve/ranks/local_frames.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/local/local_world.h"
#include "comm/work_note.h"

namespace tessera::serve {
namespace {

struct Finished {
  FrameResult result;
  std::vector<std::vector<double>> logits;
};

}  // namespace

struct LocalFrameRunner::State {
  State(ServePlan plan_in, const WeightsLoader& weights_in)
      : plan(std::move(plan_in)),
        weights(weights_in),
        world({.size = plan.world(),
               .timeout = plan.options.timeout,
               .busy_threads = static_cast<int>(plan.options.threads) + 1}),
        ranks(static_cast<size_t>(plan.world())),
        queues(ranks.size()) {}

  void serve(int rank);
  void fail(int rank, const std::exception& error, bool echo);
  [[nodiscard]] std::shared_ptr<const Frame> next(int rank);  // null: no more
  [[nodiscard]] FrameMasks next_masks();
  void throw_if_failed(std::unique_lock<std::mutex>& /*held*/) const {
    if (error != nullptr) std::rethrow_exception(error);
    if (echoed != nullptr) std::rethrow_exception(echoed);
  }

  const ServePlan plan;
  const WeightsLoader weights;
  LocalWorld world;
  std::vector<std::unique_ptr<RankFrames>> ranks;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<std::shared_ptr<const Frame>>>
      queues;  // by rank: frames that it has not begun
  std::deque<Finished> finished;
  int ready = 0;
  uint64_t started = 0;       // frames
  std::vector<uint64_t> run;  // by rank
  uint64_t taken = 0;
  bool stopping = false;
  bool keeps_logits = false;
  bool keeps_times = false;
  std::vector<RankFrameTimes> times;
  std::deque<FrameMasks> masks;      // that the rank that samples has not taken
  std::exception_ptr error, echoed;  // of the rank that failed; of one that only waited for it
  std::vector<std::vector<double>> logits;
  std::vector<std::thread> threads;
};

void LocalFrameRunner::State::fail(int rank, const std::exception& e, bool echo) {
  world.abort(fmt::format("rank {}: {}", rank, e.what()));
  const std::scoped_lock lock(mutex);
  std::exception_ptr& to = echo ? echoed : error;
  if (to == nullptr) to = std::current_exception();
  changed.notify_all();
}

std::shared_ptr<const Frame> LocalFrameRunner::State::next(int rank) {
  std::unique_lock lock(mutex);
  auto& queue = queues[static_cast<size_t>(rank)];
  changed.wait(lock, [&] { return stopping || !queue.empty() || world.aborted(); });
  if (queue.empty() || world.aborted()) return nullptr;
  std::shared_ptr<const Frame> frame = std::move(queue.front());
  queue.pop_front();
  return frame;
}

FrameMasks LocalFrameRunner::State::next_masks() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return stopping || !masks.empty() || world.aborted(); });
  if (masks.empty()) throw CommError("the frame at hand gets no masks: the model is being stopped");
  FrameMasks next = std::move(masks.front());
  masks.pop_front();
  return next;
}

void LocalFrameRunner::State::serve(int rank) {
  const auto r = static_cast<size_t>(rank);
  try {
    ranks[r] = std::make_unique<RankFrames>(world.endpoint(rank), plan, weights);
    RankFrames& mine = *ranks[r];
    {
      const std::scoped_lock lock(mutex);
      ++ready;
      changed.notify_all();
    }
    while (const std::shared_ptr<const Frame> frame = next(rank)) {
      const int64_t begin_ns = frame_clock_ns();
      Finished one{mine.run(*frame, [this] { return next_masks(); }), {}};
      if (keeps_logits) one.logits = mine.logits();
      const std::scoped_lock lock(mutex);
      ++run[r];
      if (keeps_times) times.push_back({rank, frame_times(frame->number, begin_ns, mine.waits())});
      if (mine.samples()) finished.push_back(std::move(one));
      changed.notify_all();
    }
  } catch (const CommError& e) {
    fail(rank, e, /*echo=*/true);
  } catch (const std::exception& e) {
    fail(rank, e, /*echo=*/false);
  }
}

LocalFrameRunner::LocalFrameRunner(ServePlan plan) : LocalFrameRunner(plan, weights_of(plan)) {}

LocalFrameRunner::LocalFrameRunner(ServePlan plan, const TensorSource& weights)
    : LocalFrameRunner(std::move(plan), loader_of(weights)) {}

LocalFrameRunner::LocalFrameRunner(ServePlan plan, const WeightsLoader& weights)
    : state_(std::make_unique<State>(std::move(plan), weights)) {
  State& s = *state_;
  s.run.assign(s.ranks.size(), 0);
  for (int rank = 0; rank < s.world.size(); ++rank) {
    s.threads.emplace_back([&s, rank] { s.serve(rank); });
  }
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return s.ready == s.world.size() || s.error || s.echoed; });
  if (s.error == nullptr && s.echoed == nullptr) return;
  s.stopping = true;
  s.changed.notify_all();
  lock.unlock();
  for (std::thread& thread : s.threads) thread.join();
  s.threads.clear();
  lock.lock();
  s.throw_if_failed(lock);
}

LocalFrameRunner::~LocalFrameRunner() {
  State& s = *state_;
  {
    const std::scoped_lock lock(s.mutex);
    s.stopping = true;
    s.changed.notify_all();
  }
  for (std::thread& thread : s.threads) thread.join();
}

const ServeShape& LocalFrameRunner::shape() const { return state_->plan.shape; }
const ServePlan& LocalFrameRunner::plan() const { return state_->plan; }
const RankFrames& LocalFrameRunner::rank(int rank) const {
  return *state_->ranks[static_cast<size_t>(rank)];
}
void LocalFrameRunner::keep_logits() { state_->keeps_logits = true; }
void LocalFrameRunner::keep_times() { state_->keeps_times = true; }
std::vector<RankFrameTimes> LocalFrameRunner::take_times() {
  const std::scoped_lock lock(state_->mutex);
  return std::exchange(state_->times, {});
}
const std::vector<std::vector<double>>& LocalFrameRunner::logits() const { return state_->logits; }

uint64_t LocalFrameRunner::progress() const {
  uint64_t instructions = 0;
  for (int rank = 0; rank < state_->world.size(); ++rank) {
    for (int stream = 0; stream < kNumStreams; ++stream) {
      const WorkNote* note = state_->world.endpoint(rank).work_note(stream);
      if (note != nullptr) instructions += note->begun();
    }
  }
  return instructions;
}

void LocalFrameRunner::start(const Frame& frame) {
  State& s = *state_;
  const auto shared = std::make_shared<const Frame>(frame);  // by all ranks
  std::unique_lock lock(s.mutex);
  s.throw_if_failed(lock);
  TESSERA_CHECK(s.started - s.taken < static_cast<uint64_t>(s.plan.shape.stages),
                "frame {}: {} are under way already", frame.number, s.started - s.taken);
  ++s.started;
  for (auto& queue : s.queues) queue.push_back(shared);
  s.changed.notify_all();
}

void LocalFrameRunner::allow(FrameMasks masks) {
  State& s = *state_;
  const std::unique_lock lock(s.mutex);
  s.masks.push_back(std::move(masks));
  s.changed.notify_all();
}

FrameResult LocalFrameRunner::finish() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  TESSERA_CHECK(s.started > s.taken, "no frame is under way");
  // Bounded: the waits of every rank are. With the last frame taken, no rank is in the middle of
  // anything, so that what it measured can be read.
  const auto through = [&] {
    const bool idle = std::all_of(s.run.begin(), s.run.end(),
                                  [&](uint64_t frames) { return frames == s.started; });
    return !s.finished.empty() && (idle || s.taken + 1 < s.started);
  };
  s.changed.wait(lock, [&] { return through() || s.error || s.echoed; });
  if (!through()) {
    // The rank that failed may be behind one that waited for it.
    if (s.error == nullptr)
      s.changed.wait_for(lock, std::chrono::seconds(1), [&] { return s.error != nullptr; });
    s.throw_if_failed(lock);
  }
  Finished one = std::move(s.finished.front());
  s.finished.pop_front();
  ++s.taken;
  s.logits = std::move(one.logits);
  return std::move(one.result);
}

}  // namespace tessera::serve

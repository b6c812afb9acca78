#include "serve/api/readiness.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace tessera::serve {
namespace {

constexpr std::chrono::milliseconds kLookEvery{50};

}  // namespace

class Readiness::Probe final : public GenerationListener {
 public:
  void on_token(int, const SampledToken&) override { answered = true; }
  void on_finish(int, FinishReason reason, const std::string&) override {
    // A first token that ends the text is an answer, too.
    if (reason == FinishReason::kStop || reason == FinishReason::kLength) answered = true;
  }
  void on_end(const GenerationUsage&) override { ended = true; }
  std::atomic<bool> answered{false}, ended{false};
};

Readiness::Readiness(Generator& generator, const ReadinessOptions& options)
    : generator_(generator), options_(options) {
  thread_ = std::thread([this] { run(); });
}

Readiness::~Readiness() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (probe_ != nullptr && !probe_->ended) generator_.cancel(probe_id_);
}

void Readiness::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

std::string Readiness::why_not() const {
  if (const std::string failure = generator_.failure(); !failure.empty()) return failure;
  const bool lost = generator_.last_seen_alive() == Clock::time_point::min();
  const std::lock_guard lock(mutex_);
  if (draining_) return "the server is ending";
  if (lost) return "the engine was lost and is being started again";
  if (!lived_) return "the engine has not answered yet";
  const auto silent =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_life_);
  if (silent > options_.patience) {
    return fmt::format("the engine has made no progress for {:.1f} s",
                       static_cast<double>(silent.count()) / 1000);
  }
  return "";
}

void Readiness::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    look();
    lock.lock();
    changed_.wait_for(lock, std::min(options_.every, kLookEvery), [this] { return ending_; });
  }
}

void Readiness::look() {
  const GeneratorStats stats = generator_.stats();
  const bool progress = stats.frames_total != frames_ || stats.answer_tokens_total != tokens_ ||
                        stats.rank_progress != rank_progress_;
  // Each answer is a sign of life once.
  const bool answered = probe_ != nullptr && probe_->answered.exchange(false);
  if (probe_ != nullptr && probe_->ended) probe_.reset();
  bool due = false;
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (answered || (progress && lived_)) {
      last_life_ = now;
      lived_ = true;
    }
    due = !draining_ && (!lived_ || now - last_life_ >= options_.every);
  }
  frames_ = stats.frames_total;
  tokens_ = stats.answer_tokens_total;
  rank_progress_ = stats.rank_progress;
  if (!due || probe_ != nullptr || !generator_.failure().empty()) return;
  GenerationRequest request;
  request.prompt = options_.prompt;
  request.max_tokens = 1;
  request.sampling.temperature = 0;
  request.priority = kProbePriority;
  auto probe = std::make_shared<Probe>();
  const Submission submission = generator_.submit(std::move(request), probe);
  if (submission.refused != Refused::kNo) return;
  probe_ = std::move(probe);
  probe_id_ = submission.id;
}

}  // namespace tessera::serve

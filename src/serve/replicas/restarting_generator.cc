#include "serve/replicas/restarting_generator.h"

#include <algorithm>
#include <utility>

#include "base/failure.h"

namespace tessera::serve {
namespace {

using std::chrono::milliseconds;

// A generator may say nothing by itself.
constexpr milliseconds kLookEvery{50};
// For a generator to tell its requests that it has failed, before it is destroyed.
constexpr milliseconds kTellTime{5'000};
constexpr milliseconds kShortly{1};
constexpr milliseconds kDrainSlice{100};
// Ids of a generation are no ids of the next one.
constexpr uint64_t kEpochs = uint64_t{1} << 16U;

// What a new process would find again.
bool is_curable(ExitCode code) {
  return code == ExitCode::kFailed || code == ExitCode::kRequeue || code == ExitCode::kNoQuorum;
}

GeneratorStats sum_of_totals(const GeneratorStats& before, GeneratorStats now) {
  now.prompt_tokens_total += before.prompt_tokens_total;
  now.answer_tokens_total += before.answer_tokens_total;
  now.prefix_hit_tokens_total += before.prefix_hit_tokens_total;
  now.prefix_asked_tokens_total += before.prefix_asked_tokens_total;
  now.recomputed_tokens_total += before.recomputed_tokens_total;
  now.preemptions_total += before.preemptions_total;
  now.frames_total += before.frames_total;
  now.rank_progress += before.rank_progress;
  now.finished_total += before.finished_total;
  now.cancelled_total += before.cancelled_total;
  now.failed_total += before.failed_total;
  return now;
}

}  // namespace

RestartingGenerator::RestartingGenerator(RestartOptions options) : options_(std::move(options)) {
  begin(options_.make(generation(1)));
  vocab_ = generator_->vocab();
  max_context_ = generator_->max_context();
  minder_ = std::thread([this] { mind(); });
}

RestartingGenerator::~RestartingGenerator() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  minder_.join();
}

RestartingGenerator::Lease RestartingGenerator::lease() const {
  const std::scoped_lock lock(mutex_);
  // One that is known to be lost takes nothing more, even if it does not know it yet.
  return {alarm_ ? nullptr : generator_, epoch_};
}

RestartOptions::Generation RestartingGenerator::generation(uint64_t epoch) {
  const auto alarm = [this, epoch](const GeneratorLoss& loss) {
    {
      const std::scoped_lock lock(mutex_);
      if (epoch != epoch_ || alarm_) return;
      alarm_ = loss;
    }
    changed_.notify_all();
  };
  return {.number = static_cast<int>(epoch), .alarm = alarm, .cancelled = [this] {
            return closing_.load();
          }};
}

void RestartingGenerator::begin(std::unique_ptr<Generator> generator) {
  const std::scoped_lock lock(mutex_);
  generator_ = std::move(generator);
  born_ = Clock::now();
}

Submission RestartingGenerator::submit(GenerationRequest request,
                                       std::shared_ptr<GenerationListener> listener) {
  const Lease now = lease();
  {
    const std::scoped_lock lock(mutex_);
    if (gave_up_) return {.refused = Refused::kDead, .why = gave_up_->reason};
    if (draining_) return {.refused = Refused::kDraining, .why = "the server is shutting down"};
  }
  if (!now.generator) {
    return {.refused = Refused::kDead, .why = "the model is being started again; try later"};
  }
  Submission submission = now.generator->submit(std::move(request), std::move(listener));
  if (submission.refused == Refused::kNo) {
    submission.id = submission.id * kEpochs + now.epoch % kEpochs;
  }
  return submission;
}

void RestartingGenerator::cancel(GenerationId id) {
  const Lease now = lease();
  if (now.generator && id % kEpochs == now.epoch % kEpochs) now.generator->cancel(id / kEpochs);
}

void RestartingGenerator::cancel_choice(GenerationId id, int choice) {
  const Lease now = lease();
  if (now.generator && id % kEpochs == now.epoch % kEpochs) {
    now.generator->cancel_choice(id / kEpochs, choice);
  }
}

GeneratorStats RestartingGenerator::stats() const {
  std::shared_ptr<Generator> generator;
  GeneratorStats ended;
  {
    const std::scoped_lock lock(mutex_);
    generator = generator_;
    ended = ended_;
  }
  return sum_of_totals(ended, generator ? generator->stats() : GeneratorStats());
}

std::string RestartingGenerator::failure() const {
  const std::scoped_lock lock(mutex_);
  return gave_up_ ? gave_up_->reason : "";
}

std::chrono::steady_clock::time_point RestartingGenerator::last_seen_alive() const {
  const Lease now = lease();
  if (!now.generator || !now.generator->failure().empty()) return Clock::time_point::min();
  return now.generator->last_seen_alive();
}

// Nothing that is lost now comes back: there is nobody to answer.
bool RestartingGenerator::drain(milliseconds longest) {
  {
    const std::scoped_lock lock(mutex_);
    draining_ = true;
  }
  const Clock::time_point until = Clock::now() + longest;
  while (true) {
    const Lease now = lease();
    if (!now.generator) return false;
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (now.generator->drain(std::clamp(left, milliseconds(0), kDrainSlice))) return true;
    if (left <= milliseconds(0) || !now.generator->failure().empty()) return false;
  }
}

std::optional<GeneratorLoss> RestartingGenerator::gave_up() const {
  const std::scoped_lock lock(mutex_);
  return gave_up_;
}

int RestartingGenerator::restarts() const {
  const std::scoped_lock lock(mutex_);
  return restarts_;
}

void RestartingGenerator::mind() {
  while (const std::optional<GeneratorLoss> loss = await_loss()) {
    end_generation();
    if (!start_again(*loss)) break;
  }
  std::shared_ptr<Generator> last;
  const std::scoped_lock lock(mutex_);
  last.swap(generator_);
}

// Nothing: this object is being destroyed.
std::optional<GeneratorLoss> RestartingGenerator::await_loss() {
  const std::shared_ptr<Generator> generator = lease().generator;
  std::unique_lock lock(mutex_);
  const auto told = [&] { return closing_ || alarm_.has_value(); };
  while (!changed_.wait_for(lock, kLookEvery, told)) {
    lock.unlock();  // it may be calling us
    const std::string failure = generator->failure();
    lock.lock();
    if (failure.empty()) continue;
    // Whoever made it may say more of the same.
    changed_.wait_for(lock, kLookEvery, told);
    if (!alarm_) alarm_ = GeneratorLoss{.reason = failure};
  }
  return closing_ ? std::nullopt : alarm_;
}

// Its requests hear of it from the generator itself, as soon as it notices.
void RestartingGenerator::end_generation() {
  std::shared_ptr<Generator> generator;
  {
    const std::scoped_lock lock(mutex_);
    generator = generator_;
  }
  const Clock::time_point until = Clock::now() + kTellTime;
  const auto busy = [&] {
    const GeneratorStats stats = generator->stats();
    return generator->failure().empty() && stats.running + stats.waiting > 0;
  };
  while (busy() && Clock::now() < until) std::this_thread::sleep_for(kShortly);
  const GeneratorStats last = generator->stats();
  {
    const std::scoped_lock lock(mutex_);
    ended_ = sum_of_totals(ended_, last);
    // Gauges are of the one at hand.
    ended_.running = ended_.waiting = 0;
    ended_.pages = ended_.pages_used = ended_.pages_cached = 0;
    if (Clock::now() - born_ >= options_.good_after) used_ = 0;
    generator_.reset();
  }
  // Calls that are inside it come back: each is short. It must not be the last of them that ends
  // it, on a thread of its own.
  while (generator.use_count() > 1) std::this_thread::sleep_for(kShortly);
}

// False: it is over.
bool RestartingGenerator::start_again(GeneratorLoss loss) {
  while (true) {
    {
      const std::scoped_lock lock(mutex_);
      if (closing_) return false;
      if (!loss.curable || used_ >= options_.restarts || draining_) break;
      ++used_;
      ++restarts_;
      ++epoch_;
      alarm_.reset();
    }
    const int left = options_.restarts - used_;
    say(fmt::format("{}: starts again, {} restart{} left", loss.reason, left,
                    left == 1 ? "" : "s"));
    try {
      begin(options_.make(generation(epoch_)));
      say(fmt::format("answers again (generation {})", epoch_));
      return true;
    } catch (const Error& error) {
      loss = {.reason = error.what(), .code = error.code(), .curable = is_curable(error.code())};
    } catch (const std::exception& error) {
      loss = {.reason = failure_of(error).text, .code = failure_of(error).code, .curable = false};
    }
  }
  give_up(loss);
  return false;
}

void RestartingGenerator::give_up(const GeneratorLoss& loss) {
  const std::scoped_lock lock(mutex_);
  gave_up_ = loss;
  if (loss.curable) gave_up_->code = ExitCode::kRequeue;
  if (restarts_ > 0 && loss.curable) {
    gave_up_->reason +=
        fmt::format("; started again {} time{} before", restarts_, restarts_ == 1 ? "" : "s");
  }
}

void RestartingGenerator::say(const std::string& text) const {
  if (options_.say) options_.say(text);
}

}  // namespace tessera::serve

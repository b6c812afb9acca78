// A Generator that is made anew where it fails: what a server needs to outlive the loss of a rank.
//
// When the generator at hand has failed, its requests are told so (FinishReason::kFailed), it is
// destroyed, and only then the next one is made: two never hold the memory of the model at once.
// Meanwhile new requests are refused (Refused::kDead) and last_seen_alive() is the beginning of
// time, so that the server is not ready; failure() stays empty, because it will answer again. After
// `restarts` failures, or one that a new generator would find again, failure() says why, for good.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "serve/generator.h"

namespace tessera::serve {

// Why a generator will not answer again.
struct GeneratorLoss {
  std::string reason;
  ExitCode code = ExitCode::kFailed;  // of what was lost
  bool curable = true;                // a new one may do better
};

struct RestartOptions {
  int restarts = 0;
  // One that has lived this long has all restarts before it back.
  std::chrono::milliseconds good_after{600'000};
  // What the maker of a generator is told. Its functions may be called from any thread as long as
  // the RestartingGenerator lives, and return at once.
  struct Generation {
    int number = 1;
    // That it is lost, from somebody who knows before the generator does: because nothing is asked
    // of it just then.
    std::function<void(const GeneratorLoss&)> alarm;
    std::function<bool()> cancelled;  // nobody wants it any longer: may throw any Error
  };
  // The generator, once it is ready. Throws Error.
  std::function<std::unique_ptr<Generator>(const Generation& generation)> make;
  // One line, of a loss and of what follows it. Null: it is not said.
  std::function<void(const std::string&)> say = nullptr;
};

class RestartingGenerator final : public Generator {
 public:
  // Makes the first one; throws what that throws.
  explicit RestartingGenerator(RestartOptions options);
  ~RestartingGenerator() override;
  RestartingGenerator(const RestartingGenerator&) = delete;
  RestartingGenerator& operator=(const RestartingGenerator&) = delete;

  [[nodiscard]] int64_t vocab() const override { return vocab_; }
  [[nodiscard]] int64_t max_context() const override { return max_context_; }
  Submission submit(GenerationRequest request,
                    std::shared_ptr<GenerationListener> listener) override;
  void cancel(GenerationId id) override;
  void cancel_choice(GenerationId id, int choice) override;
  [[nodiscard]] GeneratorStats stats() const override;  // totals are of all generations
  [[nodiscard]] std::string failure() const override;
  [[nodiscard]] std::chrono::steady_clock::time_point last_seen_alive() const override;
  bool drain(std::chrono::milliseconds longest) override;

  // Nothing: it goes on. Else why not, with the exit code of the server: kRequeue where the same
  // command may go on.
  [[nodiscard]] std::optional<GeneratorLoss> gave_up() const;
  [[nodiscard]] int restarts() const;  // so far

 private:
  using Clock = std::chrono::steady_clock;

  // The generator at hand, or null, and its number.
  struct Lease {
    std::shared_ptr<Generator> generator;
    uint64_t epoch = 0;
  };
  [[nodiscard]] Lease lease() const;
  [[nodiscard]] RestartOptions::Generation generation(uint64_t epoch);
  void begin(std::unique_ptr<Generator> generator);
  void mind();
  [[nodiscard]] std::optional<GeneratorLoss> await_loss();
  void end_generation();
  bool start_again(GeneratorLoss loss);
  void give_up(const GeneratorLoss& loss);
  void say(const std::string& text) const;

  RestartOptions options_;
  int64_t vocab_ = 0;
  int64_t max_context_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Generator> generator_;  // null between two
  uint64_t epoch_ = 1;                    // of generator_, or of the next one
  Clock::time_point born_;                // of generator_
  GeneratorStats ended_;                  // totals of those before it
  std::optional<GeneratorLoss> alarm_;    // of generator_
  std::optional<GeneratorLoss> gave_up_;
  int used_ = 0;      // restarts, of those that are left since the last good generation
  int restarts_ = 0;  // in all
  bool draining_ = false;
  std::atomic<bool> closing_{false};
  std::thread minder_;
};

}  // namespace tessera::serve

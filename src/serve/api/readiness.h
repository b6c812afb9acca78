// Whether the engine answers: it is asked for one token now and then, while nothing else shows
// that it makes progress.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/api/asked.h"
#include "serve/generator.h"

namespace tessera::serve {

// Goes before all that clients may ask for.
inline constexpr int kProbePriority = kFirstPriority - 1;

struct ReadinessOptions {
  std::chrono::milliseconds every{3'000};      // without progress, it is asked
  std::chrono::milliseconds patience{10'000};  // without a sign of life, it is not ready
  std::vector<int32_t> prompt{0};              // at least one token
};

// Thread-safe.
class Readiness {
 public:
  // The generator must outlive it.
  Readiness(Generator& generator, const ReadinessOptions& options);
  ~Readiness();
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;

  // Empty: ready. Else why not.
  [[nodiscard]] std::string why_not() const;
  // Not ready from now on.
  void drain();

 private:
  using Clock = std::chrono::steady_clock;
  class Probe;

  void run();
  void look();

  Generator& generator_;
  const ReadinessOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false, draining_ = false;
  Clock::time_point last_life_{};
  bool lived_ = false;
  uint64_t frames_ = 0, tokens_ = 0, rank_progress_ = 0;
  std::shared_ptr<Probe> probe_;  // under way
  GenerationId probe_id_ = 0;
  std::thread thread_;
};

}  // namespace tessera::serve

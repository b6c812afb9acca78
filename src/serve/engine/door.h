// What any thread asks of the engine, and what the engine lets any thread see of itself. Bounded:
// by the requests that may wait, and one cancellation for each answer. No call waits for the
// engine, but drain().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "serve/batch/batch_options.h"
#include "serve/frame.h"
#include "serve/generator.h"

namespace tessera::serve {

struct Newcomer {
  GenerationId id = 0;
  GenerationRequest request;
  std::shared_ptr<GenerationListener> listener;
};

struct Cancellation {
  static constexpr int kAll = -1;
  GenerationId id = 0;
  int choice = kAll;
};

// What came since the engine last asked.
struct EngineNews {
  std::vector<Newcomer> newcomers;
  std::vector<Cancellation> cancellations;
  bool closing = false;
};

class EngineDoor {
 public:
  using Clock = std::chrono::steady_clock;

  EngineDoor(const ServeShape& shape, const BatchOptions& batch, int64_t most_waiting);

  // For any thread.
  Submission submit(GenerationRequest request, std::shared_ptr<GenerationListener> listener);
  void cancel(const Cancellation& cancellation);
  [[nodiscard]] GeneratorStats stats() const;
  [[nodiscard]] std::optional<Failure> failure() const;
  [[nodiscard]] Clock::time_point last_seen_alive() const;
  bool drain(std::chrono::milliseconds longest);
  void close();  // nothing is taken any more, and the engine is to end

  // For the engine's thread. `until`: waits for something to come; a long wait is cut short, so
  // that the engine comes round.
  [[nodiscard]] EngineNews take();
  [[nodiscard]] EngineNews wait(std::optional<Clock::time_point> until);
  void begun(GenerationId id);  // it waits no longer
  void ended(GenerationId id);  // and its listener has heard of it
  void show(const GeneratorStats& stats);
  void come_round();
  // Nothing is taken any more; what has come until then is returned.
  [[nodiscard]] EngineNews fail(const Failure& failure);

 private:
  struct Live {
    int choices = 1;
    bool waits = true;
  };
  [[nodiscard]] std::string why_not(const GenerationRequest& request) const;
  [[nodiscard]] EngineNews take_held();

  const ServeShape shape_;
  const BatchOptions batch_;
  const int64_t most_waiting_;

  mutable std::mutex mutex_;
  std::condition_variable came_, left_;
  EngineNews news_;
  std::set<std::pair<GenerationId, int>> cancelled_;  // that are in news_
  std::unordered_map<GenerationId, Live> live_;       // taken, and not ended
  int64_t waiting_ = 0;                               // of them
  GenerationId next_id_ = 1;
  GeneratorStats shown_;
  std::optional<Failure> failure_;
  bool draining_ = false;
  std::atomic<Clock::rep> alive_;
};

}  // namespace tessera::serve

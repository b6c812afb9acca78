// Answers requests by frames: a scheduler says what the next frame computes, ranks compute it, and
// what its rows gave goes to the requests. One thread of its own does all that.
//
//   auto engine = std::make_unique<Engine>(std::move(runner), options);
//   engine->submit(std::move(request), listener);
//
// As many frames are under way as the ranks have stages; while they are, listeners are told what
// the frames before gave. A request whose logits are not finite fails alone (FinishReason::kFailed)
// and leaves nothing in the cache. Where the runner throws, every request fails with its message,
// failure() says it, and nothing is taken any more.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/failure.h"
#include "serve/batch/batch_options.h"
#include "serve/engine/door.h"
#include "serve/frame.h"
#include "serve/generator.h"

namespace tessera::serve {

struct EngineOptions {
  BatchOptions batch;
  int64_t most_waiting = 256;  // requests that have not begun; one more is refused
};

class Engine final : public Generator {
 public:
  // Throws ConfigError where frames of the runner's shape have no room for such batches.
  Engine(std::unique_ptr<FrameRunner> runner, const EngineOptions& options);
  // What is still under way ends with FinishReason::kFailed. Waits for the frame that is computed.
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] int64_t vocab() const override;
  [[nodiscard]] int64_t max_context() const override;
  Submission submit(GenerationRequest request,
                    std::shared_ptr<GenerationListener> listener) override;
  void cancel(GenerationId id) override;
  void cancel_choice(GenerationId id, int choice) override;
  [[nodiscard]] GeneratorStats stats() const override;
  [[nodiscard]] std::string failure() const override;
  [[nodiscard]] std::chrono::steady_clock::time_point last_seen_alive() const override;
  bool drain(std::chrono::milliseconds longest) override;

  // Nothing: it answers. Else what failure() says, and the exit code that goes with it.
  [[nodiscard]] std::optional<Failure> how_it_failed() const;

 private:
  const std::unique_ptr<FrameRunner> runner_;
  EngineDoor door_;
  std::thread thread_;
};

}  // namespace tessera::serve

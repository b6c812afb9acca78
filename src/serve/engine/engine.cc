#include "serve/engine/engine.h"

#include <utility>

#include "base/error.h"
#include "serve/engine/loop.h"

namespace tessera::serve {

Engine::Engine(std::unique_ptr<FrameRunner> runner, const EngineOptions& options)
    : runner_(std::move(runner)),
      door_(runner_->shape(), options.batch, options.most_waiting),
      thread_([this, batch = options.batch] { EngineLoop(*runner_, door_, batch).run(); }) {}

Engine::~Engine() {
  door_.close();
  thread_.join();
}

int64_t Engine::vocab() const { return runner_->shape().vocab; }
int64_t Engine::max_context() const { return runner_->shape().max_context; }

Submission Engine::submit(GenerationRequest request, std::shared_ptr<GenerationListener> listener) {
  return door_.submit(std::move(request), std::move(listener));
}

void Engine::cancel(GenerationId id) { door_.cancel({.id = id}); }

void Engine::cancel_choice(GenerationId id, int choice) {
  if (choice >= 0) door_.cancel({.id = id, .choice = choice});
}

GeneratorStats Engine::stats() const {
  GeneratorStats stats = door_.stats();
  stats.rank_progress = runner_->progress();
  return stats;
}

std::string Engine::failure() const {
  const std::optional<Failure> failure = door_.failure();
  return failure ? failure->text : "";
}

std::optional<Failure> Engine::how_it_failed() const { return door_.failure(); }

std::chrono::steady_clock::time_point Engine::last_seen_alive() const {
  return door_.last_seen_alive();
}

bool Engine::drain(std::chrono::milliseconds longest) { return door_.drain(longest); }

}  // namespace tessera::serve

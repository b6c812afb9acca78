// Ranks as threads: nothing to start again where one fails.
#include "serve/engine/engine.h"
#include "serve/ranks/local_frames.h"
#include "serve/ranks/warm_up.h"
#include "serve/start/replica.h"

namespace tessera::serve {

Replica start_threads(const ServePlan& plan, const StartOptions& options) {
  auto runner = std::make_unique<LocalFrameRunner>(plan);
  for (const Frame& frame : warm_up_frames(plan.shape)) {
    runner->start(frame);
    (void)runner->finish();
  }
  auto engine = std::make_unique<Engine>(
      std::move(runner),
      EngineOptions{.batch = options.batch, .most_waiting = options.most_waiting});
  const Engine* seen = engine.get();
  const auto gave_up = [seen]() -> std::optional<GeneratorLoss> {
    const std::optional<Failure> failure = seen->how_it_failed();
    if (!failure) return std::nullopt;
    return GeneratorLoss{.reason = failure->text, .code = failure->code, .curable = false};
  };
  return {std::move(engine), gave_up};
}

}  // namespace tessera::serve

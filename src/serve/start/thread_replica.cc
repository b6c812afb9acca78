// Ranks as threads: nothing to start again where one fails.
#include <utility>

#include "serve/engine/engine.h"
#include "serve/ranks/frame_trace.h"
#include "serve/ranks/local_frames.h"
#include "serve/ranks/warm_up.h"
#include "serve/start/replica.h"
#include "serve/start/trace_file.h"

namespace tessera::serve {

Replica start_threads(const ServePlan& plan, const StartOptions& options, int number) {
  auto runner = std::make_unique<LocalFrameRunner>(plan);
  for (const Frame& frame : warm_up_frames(plan.shape)) {
    runner->start(frame);
    (void)runner->finish();
  }
  std::unique_ptr<FrameRunner> frames;
  if (options.trace.empty()) {
    frames = std::move(runner);
  } else {
    runner->keep_times();
    frames = std::make_unique<TracingFrameRunner>(
        std::move(runner),
        make_trace_file(trace_path(options.trace, number, 1), plan.world(), options.say));
  }
  auto engine = std::make_unique<Engine>(
      std::move(frames),
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

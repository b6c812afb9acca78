// A rank of a served model, in a process of its own.
#include <fmt/format.h>

#include <cstdio>

#include "base/error.h"
#include "base/failure.h"
#include "base/text/printable.h"
#include "serve/ranks/host_options.h"
#include "serve/ranks/rank_frames.h"
#include "serve/ranks/rank_process.h"
#include "serve/start/rank_task.h"
#include "serve/start/start_model.h"
#include "tensor/cpu_level.h"

namespace tessera::serve {
namespace {

class ModelWorker final : public RankWorker {
 public:
  ModelWorker(const RankSetup& setup, ServePlan plan)
      : plan_(std::move(plan)), frames_(setup.world, plan_, weights_of(plan_)) {}

  [[nodiscard]] bool samples() const override { return frames_.samples(); }
  FrameResult run(const Frame& frame, const AwaitMasks& masks) override {
    return frames_.run(frame, masks);
  }
  [[nodiscard]] StageWaits waits() const override { return frames_.waits(); }

 private:
  const ServePlan plan_;
  RankFrames frames_;
};

std::unique_ptr<RankWorker> make_model_worker(const RankSetup& setup) {
  ServeOptions options = options_of_task(setup.task.text);
  const RunSpec model = fill_options_of_any(options);
  ServePlan plan = plan_serving(model, options);
  // Tokens that mean nothing are known to the front alone, which has the tokenizer.
  plan.shape.vocab = setup.task.shape.vocab;
  setup.tell("loads its weights");
  return std::make_unique<ModelWorker>(setup, std::move(plan));
}

}  // namespace

std::optional<int> run_as_served_rank(const Environment& environment) {
  const auto text_of = [&](std::string_view name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  if (text_of(agent_variable::kFrames).empty()) return std::nullopt;
  try {
    use_cpu_level(text_of("TESSERA_CPU_LEVEL"));
    return run_rank_process(detect_launch(environment), parse_faults(text_of("TESSERA_FAULT")),
                            make_model_worker);
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    fmt::print(stderr, "tessera: {}\n", printable(failure.text));
    return static_cast<int>(failure.code);
  }
}

}  // namespace tessera::serve

// What the host does for a step of the engine, beside what ranks compute: plan the frame, fill in
// what its rows are sampled by, hand it over, take the tokens, tell listeners.
//   nothing   ranks that give every token at once: all that the engine's thread does
//   bytes     the same, with every frame written as ranks that are processes get it
//   model     a small model on one thread: from one frame's tokens to the next frame's start
// usage: engine_bench [sequences [steps]]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <vector>

#include "serve/batch/frame_codec.h"
#include "serve/engine/engine.h"
#include "serve/ranks/local_frames.h"
#include "spec/run_file/validate.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

class InstantRunner final : public FrameRunner {
 public:
  InstantRunner(const ServeShape& shape, bool encodes) : shape_(shape), encodes_(encodes) {}
  [[nodiscard]] const ServeShape& shape() const override { return shape_; }
  void start(const Frame& frame) override {
    if (encodes_) bytes_ = encode(frame);
    result_.number = frame.number;
    result_.tokens.assign(frame.rows.size(), SampledToken{.token = 7});
  }
  void allow(FrameMasks masks) override { masks_ = std::move(masks); }
  FrameResult finish() override { return result_; }

 private:
  ServeShape shape_;
  bool encodes_;
  std::vector<std::byte> bytes_;
  FrameMasks masks_;
  FrameResult result_;
};

// From the end of one full frame to the begin of the next.
struct Gaps {
  size_t rows = 0;  // of a full frame
  std::vector<double> host, ranks;
};

class TimedRunner final : public FrameRunner {
 public:
  TimedRunner(std::unique_ptr<FrameRunner> inner, Gaps& gaps)
      : inner_(std::move(inner)), gaps_(gaps) {}
  [[nodiscard]] const ServeShape& shape() const override { return inner_->shape(); }
  void start(const Frame& frame) override {
    const bool is_full = frame.rows.size() == gaps_.rows && frame.tokens.size() == gaps_.rows;
    inner_->start(frame);
    begun_ = Clock::now();
    if (is_full && was_full_) gaps_.host.push_back(microseconds(begun_ - ended_));
    was_full_ = is_full;
  }
  void allow(FrameMasks masks) override { inner_->allow(std::move(masks)); }
  FrameResult finish() override {
    FrameResult result = inner_->finish();
    ended_ = Clock::now();
    if (was_full_) gaps_.ranks.push_back(microseconds(ended_ - begun_));
    return result;
  }

 private:
  std::unique_ptr<FrameRunner> inner_;
  Gaps& gaps_;
  Clock::time_point begun_, ended_;
  bool was_full_ = false;
};

class EndListener final : public GenerationListener {
 public:
  void on_token(int, const SampledToken&) override {}
  void on_finish(int, FinishReason, const std::string&) override {}
  void on_end(const GenerationUsage&) override { end_.set_value(); }
  std::promise<void>& end() { return end_; }

 private:
  std::promise<void> end_;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void measure(const char* name, std::unique_ptr<FrameRunner> runner, int sequences, int64_t steps) {
  Gaps gaps;
  gaps.rows = static_cast<size_t>(sequences);
  Engine engine(std::make_unique<TimedRunner>(std::move(runner), gaps), {});
  std::vector<std::shared_ptr<EndListener>> listeners;
  for (int i = 0; i < sequences; ++i) {
    GenerationRequest request;
    for (int t = 0; t < 100; ++t) request.prompt.push_back((i * 31 + t) % 200);
    request.max_tokens = steps;
    request.sampling.temperature = 0;
    listeners.push_back(std::make_shared<EndListener>());
    (void)engine.submit(std::move(request), listeners.back());
  }
  for (const auto& one : listeners) one->end().get_future().wait();
  fmt::print("{:<10} {:>8} {:>14.1f} {:>14.1f}\n", name, gaps.host.size(), median(gaps.host),
             median(gaps.ranks));
}

RunSpec small_model() {
  RunSpec spec;
  spec.model.layers = 6;
  spec.model.hidden = 256;
  spec.model.ffn = 688;
  spec.model.heads = 8;
  spec.model.kv_heads = 4;
  spec.model.head_dim = 32;
  spec.model.vocab = 2048;
  spec.train.seq_len = 1024;
  spec.train.threads = 1;
  resolve(spec);
  return spec;
}

void run(int sequences, int64_t steps) {
  ServeOptions options;
  options.threads = 1;
  options.max_context = 1024;
  options.num_pages = 64 * sequences;
  options.max_sequences = options.max_rows = sequences;
  const RunSpec model = small_model();
  ServePlan plan = plan_serving(model, options);
  fmt::print("{} sequences, {} steps, a model of {:.1f} M parameters\n", sequences, steps,
             static_cast<double>(plan.buckets.front().step.layout.num_parameters) / 1e6);
  fmt::print("{:<10} {:>8} {:>14} {:>14}\n", "ranks", "steps", "host us", "ranks us");
  measure("nothing", std::make_unique<InstantRunner>(plan.shape, false), sequences, steps);
  measure("bytes", std::make_unique<InstantRunner>(plan.shape, true), sequences, steps);
  measure("model",
          std::make_unique<LocalFrameRunner>(std::move(plan), initial_weights(model.model, 1)),
          sequences, std::min<int64_t>(steps, 200));
}

}  // namespace
}  // namespace tessera::serve

int main(int argc, char** argv) {
  const int sequences = argc > 1 ? std::clamp(std::atoi(argv[1]), 1, 512) : 64;
  const int64_t steps = argc > 2 ? std::clamp(std::atoi(argv[2]), 2, 900) : 800;
  try {
    tessera::serve::run(sequences, steps);
  } catch (const std::exception& error) {
    fmt::print(stderr, "engine_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}

#include "train/machine/step_bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/philox.h"
#include "plan/report/plan_json.h"
#include "runtime/world.h"
#include "tensor/element.h"
#include "tensor/gpu_memory.h"
#include "train/machine/probe_programs.h"
#include "train/report/measure.h"
#include "train/samples/batch.h"
#include "train/session/step_params.h"
#include "train/session/system_memory.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Any tokens do, as long as they are not all the same.
SampleSource random_samples(int64_t vocab) {
  return [vocab](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
    const auto draw = [&](size_t t) {
      return static_cast<int32_t>(static_cast<double>(vocab) *
                                  uniform_at(3, static_cast<uint64_t>(sample), t));
    };
    for (size_t t = 0; t < tokens.size(); ++t) {
      tokens[t] = draw(t);
      labels[t] = draw(t + 1);
    }
  };
}

// A period of normal values is drawn once and repeated: billions of weights in seconds.
class RandomWeights {
 public:
  explicit RandomWeights(const ModelSpec& model) : model_(model) {
    for (int64_t i = 0; i < kPeriod; ++i) {
      values_.push_back(model_.init_std * normal_at(1, 1, static_cast<uint64_t>(i)));
    }
  }

  void load(Executor& executor, const StepGraph& step) const {
    const Program& program = executor.program();
    for (size_t b = 0; b < program.buckets.size(); ++b) {
      const BucketBuffers& buffers = program.buckets[b];
      const BufferId weights = buffers.full != kNoBuffer ? buffers.full : buffers.weights;
      if (weights == kNoBuffer) continue;
      const DType dtype = program.buffer(weights).dtype;
      for (const BufferId id : {weights, buffers.master}) {
        const bool rests = id == buffers.master && dtype == DType::kBF16;  // none: zeros
        if (id == kNoBuffer || rests) continue;
        executor.edit(id, [&](const Tensor& t) { fill(step.layout.buckets[b], t); });
      }
    }
  }

 private:
  static constexpr int64_t kPeriod = 65521;

  // A shard has the first values of its bucket, which is as good as its own.
  void fill(const Bucket& bucket, const Tensor& to) const {
    std::memset(to.data, 0, static_cast<size_t>(to.bytes()));
    for (const Weight& weight : bucket.weights) {
      const int64_t first = std::min(weight.offset, to.numel());
      const int64_t count = std::min(numel(weight.local_shape), to.numel() - first);
      fill(weight.parts.front().init, to, first, count);
    }
  }

  void fill(Init init, const Tensor& to, int64_t first, int64_t count) const {
    if (init == Init::kZeros) return;
    const int64_t period = std::min(kPeriod, count);
    for (int64_t i = 0; i < period; ++i) {
      write_element(to, first + i, init == Init::kOnes ? 1 : values_[static_cast<size_t>(i)]);
    }
    const int64_t element = size_bytes(to.dtype);
    std::byte* begin = static_cast<std::byte*>(to.data) + first * element;
    for (int64_t i = period; i < count; i += period) {
      std::memcpy(begin + i * element, begin,
                  static_cast<size_t>(std::min(period, count - i) * element));
    }
  }

  const ModelSpec& model_;
  std::vector<double> values_;
};

// Steps of one rank, as training does them: the next inputs are put in place as soon as may be.
class Stepper {
 public:
  Stepper(Executor& executor, const RunSpec& spec, const SampleSource& samples)
      : executor_(executor), spec_(spec), samples_(samples) {
    fill_inputs(executor_, spec_, 1, samples_);
    executor_.tune();
  }

  // Seconds of one step.
  double run() {
    const Clock::time_point start = Clock::now();
    StepParams params = step_params(spec_, ++step_);
    executor_.start(params);
    const bool early = executor_.inputs_free();
    if (early) fill_inputs(executor_, spec_, step_ + 1, samples_);
    loss_ = executor_.finish().loss;
    const double seconds = seconds_since(start);
    if (!early) fill_inputs(executor_, spec_, step_ + 1, samples_);
    return seconds;
  }
  [[nodiscard]] double loss() const { return loss_; }
  [[nodiscard]] int64_t steps() const { return step_; }

 private:
  Executor& executor_;
  const RunSpec& spec_;
  const SampleSource& samples_;
  int64_t step_ = 0;
  double loss_ = 0;
};

void measure_instructions(Executor& executor, Stepper& stepper, int64_t steps, bool reports,
                          StepBenchResult& result) {
  stepper.run();
  double seconds = 0;
  std::vector<std::vector<double>> samples(executor.program().instructions.size());
  for (int64_t step = 0; step < steps; ++step) {
    executor.time_instructions(true);
    seconds += stepper.run();
    for (size_t i = 0; reports && i < samples.size(); ++i) {
      samples[i].push_back(executor.instruction_times()->seconds(i));
    }
  }
  if (!reports) return;
  result.probed_step_s = seconds / static_cast<double>(steps);
  for (std::vector<double>& values : samples) {
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    result.mean_instruction_s.push_back(sum / static_cast<double>(values.size()));
    result.instruction_s.push_back(median_of(std::move(values)));
  }
}

// Runs of the same kind that go on, step by step, until this is destroyed.
class Company {
 public:
  Company(const CompiledRun& run, int count, const SampleSource& samples,
          const RandomWeights& weights) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, &run, &samples, &weights] {
        World world(run.step, run.programs, {});
        world.run([&](int, Executor& executor) {
          weights.load(executor, world.step());
          Stepper stepper(executor, run.step.spec, samples);
          while (!stop_.load()) stepper.run();
        });
      });
    }
  }
  ~Company() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace

double StepBenchResult::median_s() const {
  std::vector<double> sorted = step_s;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

StepBenchResult bench_step(const CompiledRun& run, const StepBenchOptions& options) {
  RunSpec spec = run.step.spec;
  spec.train.steps = options.warmup + options.steps + options.probed + 1;
  const bool gpu = spec.train.device == TrainDevice::kCuda;
  const int64_t free_before = gpu ? cuda::gpu_info(0).free_bytes : 0;
  World world(run.step, run.programs);
  const SampleSource samples = random_samples(spec.model.vocab);
  const RandomWeights weights(spec.model);
  TESSERA_CHECK(options.company == 0 || (world.size() == 1 && !gpu),
                "company for {} ranks: they would stop at different steps", world.size());
  const Company company(run, options.company, samples, weights);
  StepBenchResult result;
  int64_t steps_run = 0;
  world.run([&](int rank, Executor& executor) {
    weights.load(executor, world.step());
    Stepper stepper(executor, spec, samples);
    for (int64_t i = 0; i < options.warmup; ++i) stepper.run();
    for (int64_t i = 0; i < options.steps; ++i) {
      const double seconds = stepper.run();
      if (rank == 0) result.step_s.push_back(seconds);
    }
    if (rank == 0 && gpu) result.device_bytes = free_before - cuda::gpu_info(0).free_bytes;
    if (options.probed > 0) {
      measure_instructions(executor, stepper, options.probed, rank == 0, result);
    }
    if (rank == 0) {
      steps_run = stepper.steps();
      result.graph = executor.graph_text().value_or("");
      result.notes = executor.notes();
      result.loss = stepper.loss();
      for (const ArenaKind arena : kTrainingArenas) {
        result.arena_bytes[static_cast<size_t>(arena)] = executor.arena_bytes(arena);
      }
    }
  });
  result.measured = document_head("run", run.step.mesh, run.step.layout.num_parameters);
  // Not before all ranks are done: what a rank has sent is counted when its last peer has it.
  for (int rank = 0; rank < world.size(); ++rank) {
    result.measured["ranks"].push_back(measured_rank_json(world.executor(rank), steps_run));
  }
  result.resident_bytes = peak_resident_bytes();
  return result;
}

}  // namespace tessera

// Times a training step on random tokens and says where the time goes.
//
//   step_bench A|B [--steps N] [--threads N] [--mesh dp=2,tp=2] [--breakdown]
//
// A: 4 layers, hidden 256, ffn 768, heads 4/2, vocab 8192, seq 256, batch 8.
// B: 8 layers, hidden 512, ffn 1408, heads 8/4, vocab 16384, seq 512, batch 4.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/philox.h"
#include "spec/run_file.h"
#include "spec/validate.h"
#include "train/batch.h"
#include "train/plan_report.h"
#include "train/session.h"
#include "train/weights.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

RunSpec shape(const std::string& name) {
  RunSpec spec;
  require_config(name == "A" || name == "B", "shape '{}': use A or B", name);
  const bool a = name == "A";
  spec.model.layers = a ? 4 : 8;
  spec.model.hidden = a ? 256 : 512;
  spec.model.ffn = a ? 768 : 1408;
  spec.model.heads = a ? 4 : 8;
  spec.model.kv_heads = a ? 2 : 4;
  spec.model.vocab = a ? 8192 : 16384;
  spec.model.tied = true;
  spec.train.seq_len = a ? 256 : 512;
  spec.train.micro_batch = a ? 8 : 4;
  spec.train.steps = 20;
  spec.train.threads = 2;
  spec.optimizer.clip = 0;  // the peer does not clip
  return spec;
}

// 6 FLOPs per matrix weight and token, and causal attention (the lower half only).
double model_flops(const RunSpec& s) {
  const ModelSpec& m = s.model;
  const auto per_layer =
      static_cast<double>(m.hidden * (m.heads + 2 * m.kv_heads) * m.head_dim +
                          m.heads * m.head_dim * m.hidden + 3 * m.hidden * m.ffn);
  const double matmul =
      static_cast<double>(m.layers) * per_layer + static_cast<double>(m.hidden * m.vocab);
  const auto tokens = static_cast<double>(s.train.global_batch * s.train.seq_len);
  return 6 * tokens * (matmul + static_cast<double>(m.layers * m.hidden * s.train.seq_len));
}

// Time per op, from the end of one instruction to the end of the next on the compute stream.
class Breakdown {
 public:
  void start() { last_ = Clock::now(); }
  void add(const Instruction& instruction) {
    if (instruction.stream != StreamKind::kCompute) return;
    const Clock::time_point now = Clock::now();
    sums_[std::string(name_of(instruction.op))] += milliseconds(now - last_);
    last_ = now;
  }
  [[nodiscard]] nlohmann::ordered_json json(int64_t steps) const {
    nlohmann::ordered_json json;
    for (const auto& [op, ms] : sums_) json[op] = ms / static_cast<double>(steps);
    return json;
  }

 private:
  Clock::time_point last_;
  std::map<std::string, double> sums_;
};

int run(const std::vector<std::string>& args) {
  require_config(!args.empty(),
                 "usage: step_bench A|B [--steps N] [--threads N] [--mesh M] [--breakdown]");
  RunSpec spec = shape(args[0]);
  bool breakdown = false;
  for (size_t i = 1; i < args.size(); ++i) {
    const bool more = i + 1 < args.size();
    if (args[i] == "--breakdown") {
      breakdown = true;
    } else if (args[i] == "--steps" && more) {
      spec.train.steps = std::stoll(args[++i]);
    } else if (args[i] == "--threads" && more) {
      spec.train.threads = std::stoll(args[++i]);
    } else if (args[i] == "--mesh" && more) {
      spec.parallel = parse_mesh(args[++i], spec.parallel);
      spec.train.global_batch = spec.train.micro_batch;
      spec.train.micro_batch /= spec.parallel.replicas();
    } else {
      throw ConfigError("unknown option " + args[i]);
    }
  }
  resolve(spec);
  World world(build_step(spec, StepKind::kTraining));
  const SampleSource samples = [&](int64_t sample, std::span<int32_t> tokens,
                                   std::span<int32_t> labels) {
    const auto draw = [&](size_t t) {
      return static_cast<int32_t>(static_cast<double>(spec.model.vocab) *
                                  uniform_at(3, static_cast<uint64_t>(sample), t));
    };
    for (size_t t = 0; t < tokens.size(); ++t) {
      tokens[t] = draw(t);
      labels[t] = draw(t + 1);
    }
  };
  constexpr int64_t kWarmUp = 2;
  std::vector<double> times;
  Breakdown ops;
  world.run([&](int rank, Executor& executor) {
    load_weights(executor, world.step(), initial_weights(spec.model, 1));
    if (breakdown && rank == 0) {
      executor.set_probe([&](size_t, const Instruction& i) { ops.add(i); });
    }
    for (int64_t step = 1; step <= spec.train.steps + kWarmUp; ++step) {
      if (rank == 0 && step == kWarmUp + 1) ops = Breakdown();
      fill_inputs(executor, spec, step, samples);
      const Clock::time_point start = Clock::now();
      ops.start();
      executor.run(step_params(spec, step));
      if (rank == 0 && step > kWarmUp) times.push_back(milliseconds(Clock::now() - start));
    }
  });
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const auto tokens = static_cast<double>(spec.train.global_batch * spec.train.seq_len);
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  nlohmann::ordered_json json;
  json["shape"] = args[0];
  json["mesh"] = world.step().mesh.world();
  json["threads"] = spec.train.threads;
  json["steps"] = times.size();
  json["step_ms"] = median;
  json["best_ms"] = times.front();
  json["tokens_s"] = tokens / median * 1e3;
  json["gflops"] = model_flops(spec) / median / 1e6;
  json["planned_mib"] =
      static_cast<double>(world.program(0).total_bytes() * world.size()) / 1048576.0;
  json["rss_mib"] = static_cast<double>(usage.ru_maxrss) / 1024.0;
  if (breakdown) json["ms_per_op"] = ops.json(spec.train.steps);
  std::cout << json.dump() << '\n';
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << "step_bench: " << e.what() << '\n';
    return 2;
  }
}

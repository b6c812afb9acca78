// Times the passes that make the graph of a step, each as often as asked; the fastest run counts.
// Processor time, so that a busy machine does not count.
// usage: passes_bench [runs [key=value ...]]   e.g. passes_bench 5 model.preset=llama-3-8b
// parallel.tp=8
//        passes_bench growth [key=value ...]   with twice the layers and micro-batches again and
// again: what a layer and a micro-batch cost should stay the same
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compile/step.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// Milliseconds by pass.
std::map<std::string_view, double> time_passes(const RunSpec& spec) {
  std::map<std::string_view, double> times;
  const auto timer = [&](std::string_view pass, const std::function<void()>& run) {
    const std::clock_t start = std::clock();
    run();
    times[pass] = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  build_step(spec, StepKind::kTraining, {}, timer);
  return times;
}

void print_fastest(const RunSpec& spec, int runs) {
  std::map<std::string_view, double> fastest = time_passes(spec);
  for (int i = 1; i < runs; ++i) {
    for (const auto& [pass, time] : time_passes(spec)) {
      fastest[pass] = std::min(fastest[pass], time);
    }
  }
  for (const StepPass& pass : step_passes()) {
    const auto time = fastest.find(pass.name);
    if (time == fastest.end()) {
      std::printf("%-24s does not apply\n", pass.name);
    } else {
      std::printf("%-24s %8.3f ms\n", pass.name, time->second);
    }
  }
}

// Building the step and compiling all ranks: the fastest of three.
double compile_ms(const std::vector<std::string>& changes) {
  RunSpec spec = parse_run_file("", "", changes, nullptr);
  resolve(spec);
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    compile_ranks(build_step(spec, StepKind::kTraining));
    const auto took = static_cast<double>(std::clock() - start);
    fastest = std::min(fastest, 1e3 * took / CLOCKS_PER_SEC);
  }
  return fastest;
}

void print_growth(const std::vector<std::string>& changes) {
  for (const char* key : {"model.layers", "train.global_batch"}) {
    std::printf("%-20s %10s  %s\n", key, "ms", "us for each");
    for (int count = 16; count <= 512; count *= 2) {
      std::vector<std::string> sized = changes;
      sized.push_back(key + ("=" + std::to_string(count)));
      const double ms = compile_ms(sized);
      std::printf("%-20d %10.2f  %.1f\n", count, ms, 1e3 * ms / count);
    }
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const bool growth = argc > 1 && std::string_view(argv[1]) == "growth";
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  std::vector<std::string> changes(argv + std::min(argc, 2), argv + argc);
  if (changes.empty()) changes = {"model.preset=llama-3-8b", "parallel.tp=2"};
  try {
    if (growth) {
      tessera::print_growth(changes);
      return 0;
    }
    tessera::RunSpec spec = tessera::parse_run_file("", "", changes, nullptr);
    tessera::resolve(spec);
    tessera::print_fastest(spec, runs);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "passes_bench: %s\n", error.what());
    return 2;
  }
  return 0;
}

// Times the passes that make the graph of a step, each as often as asked; the fastest run counts.
// Processor time, so that a busy machine does not count.
// usage: passes_bench [runs [key=value ...]]   e.g. passes_bench 5 model.preset=llama-3-8b
// parallel.tp=8
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
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

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  std::vector<std::string> changes(argv + std::min(argc, 2), argv + argc);
  if (changes.empty()) changes = {"model.preset=llama-3-8b", "parallel.tp=2"};
  try {
    tessera::RunSpec spec = tessera::parse_run_file("", "", changes, nullptr);
    tessera::resolve(spec);
    tessera::print_fastest(spec, runs);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "passes_bench: %s\n", error.what());
    return 2;
  }
  return 0;
}

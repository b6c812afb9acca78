#include "bench/bench_simulator.h"

#include <time.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "sim/schedule/schedule_simulator.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostRanks = 64, kMostMicroBatches = 512;

struct SimulatorCase {
  std::string label;
  std::vector<ScheduleTape> tapes;
};

SimulatorCase largest(PipelineKind kind, int virtual_stages) {
  SimulatorCase result{fmt::format("{}{}, p={}, m={}", name_of(kind),
                                   virtual_stages > 1 ? fmt::format(" v={}", virtual_stages) : "",
                                   kMostRanks, kMostMicroBatches),
                       {}};
  result.tapes.emplace_back(make_schedule(kind, kMostRanks, virtual_stages, kMostMicroBatches));
  return result;
}

// What a search meets: every schedule, powers of two of ranks and micro-batches.
SimulatorCase mixed() {
  SimulatorCase result{fmt::format("every schedule, p<={}, m<={}", kMostRanks, kMostMicroBatches),
                       {}};
  for (int ranks = 2; ranks <= kMostRanks; ranks *= 2) {
    for (int m = 2 * ranks; m <= kMostMicroBatches; m *= 2) {
      for (const PipelineKind kind :
           {PipelineKind::kGPipe, PipelineKind::k1F1B, PipelineKind::kZbH1, PipelineKind::kZbH2,
            PipelineKind::kZbV, PipelineKind::kDualPipeV}) {
        result.tapes.emplace_back(make_schedule(kind, ranks, 0, m));
      }
      result.tapes.emplace_back(make_schedule(PipelineKind::kInterleaved, ranks, 2, m));
    }
  }
  return result;
}

// Uneven, with messages that take time: the same for everyone who runs this.
std::vector<PipelineTimes> random_times(int stages, size_t count) {
  std::mt19937 engine(7);
  const auto draw = [&engine](double least, double most) {
    return least + (most - least) * (static_cast<double>(engine()) / 4294967296.0);
  };
  std::vector<PipelineTimes> times(count);
  for (PipelineTimes& set : times) {
    for (int stage = 0; stage < stages; ++stage) {
      set.stages.push_back({draw(9, 11), draw(9, 11), draw(7, 9)});
      if (stage > 0) set.messages.push_back({draw(0.01, 0.02), draw(0.1, 0.4)});
    }
  }
  return times;
}

// Schedules per second of the clock, and per second that a core worked on them: the same where the
// machine has nothing else to do.
struct SimulatorRate {
  double per_s = 0;
  double per_core_s = 0;
};

double core_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

SimulatorRate rate_of(const SimulatorCase& bench, double seconds, bool eight_at_a_time) {
  constexpr size_t kSets = 4 * ScheduleSimulator::kLanes;
  std::vector<std::vector<PipelineTimes>> times;
  for (const ScheduleTape& tape : bench.tapes) times.push_back(random_times(tape.stages(), kSets));
  std::vector<PipelineOutcome> outcomes(kSets);
  ScheduleSimulator simulator;
  int64_t simulated = 0;
  const double core_start = core_seconds();
  const Clock::time_point start = Clock::now();
  std::chrono::duration<double> spent{};
  while (spent.count() < seconds) {
    for (size_t i = 0; i < bench.tapes.size(); ++i) {
      if (eight_at_a_time) {
        simulator.run_many(bench.tapes[i], times[i], outcomes);
      } else {
        for (size_t k = 0; k < kSets; ++k) outcomes[k] = simulator.run(bench.tapes[i], times[i][k]);
      }
      simulated += kSets;
    }
    spent = Clock::now() - start;
  }
  const double core = core_seconds() - core_start;
  const auto count = static_cast<double>(simulated);
  return {count / spent.count(), core > 0 ? count / core : 0};
}

// The rate of all threads together, and their average per second of a core.
SimulatorRate rate_of_threads(const SimulatorCase& bench, double seconds, bool eight_at_a_time,
                              int64_t threads) {
  std::vector<SimulatorRate> rates(static_cast<size_t>(threads));
  std::vector<std::thread> team;
  for (SimulatorRate& rate : rates) {
    team.emplace_back([&] { rate = rate_of(bench, seconds, eight_at_a_time); });
  }
  for (std::thread& thread : team) thread.join();
  SimulatorRate sum;
  for (const SimulatorRate& rate : rates) {
    sum.per_s += rate.per_s;
    sum.per_core_s += rate.per_core_s / static_cast<double>(threads);
  }
  return sum;
}

std::string rate_text(double rate) { return with_thousands(static_cast<int64_t>(rate)); }

}  // namespace

Command add_bench_simulator(CLI::App& bench) {
  CLI::App* app = add_command(bench, "simulator",
                              {"Count the pipeline schedules that are simulated per second.",
                               "tessera bench simulator --threads 2",
                               "tessera simulate examples/demo.toml --schedule-only --mesh pp=4"});
  auto options = std::make_shared<BenchSimulatorOptions>();
  add_whole(*app, "--threads", options->threads, 1, "that simulate side by side (default 2)");
  add_real(*app, "--seconds", options->seconds, 0, "of every measurement (default 1)");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_bench_simulator(*options, console); }};
}

int run_bench_simulator(const BenchSimulatorOptions& options, Console& console) {
  require_config(options.threads <= 256, "--threads is {}: use 1 to 256", options.threads);
  std::vector<SimulatorCase> cases;
  cases.push_back(mixed());
  cases.push_back(largest(PipelineKind::k1F1B, 0));
  cases.push_back(largest(PipelineKind::kInterleaved, 2));
  cases.push_back(largest(PipelineKind::kZbH1, 0));
  cases.push_back(largest(PipelineKind::kZbV, 0));
  cases.push_back(largest(PipelineKind::kDualPipeV, 0));
  TextTable table({{"schedules", Align::kLeft},
                   {"actions", Align::kRight},
                   {"one by one /s", Align::kRight},
                   {"per core", Align::kRight},
                   {"eight at a time /s", Align::kRight},
                   {"eight per core", Align::kRight}});
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const SimulatorCase& bench : cases) {
    int64_t actions = 0;
    for (const ScheduleTape& tape : bench.tapes) {
      actions += static_cast<int64_t>(tape.steps().size());
    }
    actions /= static_cast<int64_t>(bench.tapes.size());
    const SimulatorRate one = rate_of_threads(bench, options.seconds, false, options.threads);
    const SimulatorRate many = rate_of_threads(bench, options.seconds, true, options.threads);
    table.add_row({bench.label, with_thousands(actions), rate_text(one.per_s),
                   rate_text(one.per_core_s), rate_text(many.per_s), rate_text(many.per_core_s)});
    rows.push_back({{"schedules", bench.label},
                    {"mean_actions", actions},
                    {"one_by_one_per_s", one.per_s},
                    {"one_by_one_per_core_s", one.per_core_s},
                    {"eight_at_a_time_per_s", many.per_s},
                    {"eight_at_a_time_per_core_s", many.per_core_s}});
  }
  if (options.json) {
    const nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                         {"kind", "bench_simulator"},
                                         {"threads", options.threads},
                                         {"cases", rows}};
    console.out << json.dump(2) << '\n';
  } else {
    console.out << fitted(console, fmt::format("{} threads, {:g} s for each figure\n\n{}",
                                               options.threads, options.seconds, table.str()));
  }
  return 0;
}

}  // namespace tessera

#include "bench/bench_pricing.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/read_text.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/cost_model.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

constexpr int64_t kSeqLen = 8192;
constexpr int64_t kGlobalBatch = 2048;

// Every split of the devices that a search would ask about, with its variants.
std::vector<Strategy> strategies_of(const Workload& workload) {
  std::vector<Strategy> all;
  const auto divisors = [](int64_t number, int64_t most) {
    std::vector<int64_t> result;
    for (int64_t i = 1; i <= std::min(number, most); ++i) {
      if (number % i == 0) result.push_back(i);
    }
    return result;
  };
  const int64_t devices = workload.cluster.devices;
  for (const int64_t tp : divisors(devices, 16)) {
    for (const int64_t pp : divisors(devices / tp, 128)) {
      for (const int64_t cp : divisors(devices / tp / pp, 16)) {
        for (const int64_t micro : {1, 2, 4}) {
          for (const Recompute recompute :
               {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
            for (const int64_t zero : {0, 1, 3}) {
              for (const int64_t chunks : {1, 2, 3}) {
                Strategy s;
                s.tp = tp;
                s.pp = pp;
                s.cp = cp;
                s.dp = devices / (tp * pp * cp);
                s.micro_batch = micro;
                s.recompute = recompute;
                s.zero = zero;
                s.virtual_stages = chunks;
                s.sequence_parallel = tp > 1;
                if (chunks > 1) s.schedule = PipelineKind::kInterleaved;
                if (why_impossible(workload, s).empty()) all.push_back(s);
              }
            }
          }
        }
      }
    }
  }
  return all;
}

struct Rate {
  int64_t priced = 0;
  double seconds = 0;
  double cpu_s = 0;  // of all threads: less than they could have on a busy machine
};

// Threads price the strategies over and over until the time is up.
Rate measure(const Workload& workload, const std::vector<Strategy>& strategies, int threads,
             double seconds) {
  std::atomic<int64_t> priced{0};
  const std::clock_t cpu_begin = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      CostModel model(workload);
      int64_t mine = 0;
      double sum = 0;  // used, so that nothing is optimized away
      while (elapsed() < seconds) {
        for (const Strategy& strategy : strategies) sum += model.quick(strategy).step_s;
        mine += static_cast<int64_t>(strategies.size());
      }
      if (sum > 0) priced += mine;
    });
  }
  for (std::thread& worker : workers) worker.join();
  const auto ticks = static_cast<double>(std::clock() - cpu_begin);
  return {priced.load(), elapsed(), ticks / CLOCKS_PER_SEC};
}

}  // namespace

Command add_bench_pricing(CLI::App& bench) {
  CLI::App* pricing =
      add_command(bench, "pricing",
                  {"Time the closed-form pricing of strategies.", "tessera bench pricing",
                   "tessera bench pricing --model llama-3-70b --cluster a100-256"});
  auto options = std::make_shared<BenchPricingOptions>();
  add_text(*pricing, "--model", options->model, "NAME|FILE",
           "model of the catalogue, or a file (default llama-3-405b)");
  add_text(*pricing, "--cluster", options->cluster, "NAME|FILE",
           "cluster of the catalogue, or a file (default h100-16384)");
  add_text(*pricing, "--engine", options->engine, "NAME|FILE",
           "engine of the catalogue, or a file (default tessera)");
  add_real(*pricing, "--seconds", options->seconds, 0, "how long (default 1)");
  add_switch(*pricing, "--json", options->json, "print JSON");
  return {pricing, [options](Console& console) { return run_bench_pricing(*options, console); }};
}

int run_bench_pricing(const BenchPricingOptions& options, Console& console) {
  Workload workload;
  workload.model = shape_of(find_model(options.model, read_text).model, kSeqLen);
  workload.cluster = find_cluster(options.cluster, read_text);
  workload.engine = find_engine(options.engine, read_text).numbers;
  workload.seq_len = kSeqLen;
  workload.global_batch = std::max(kGlobalBatch, workload.cluster.devices);
  const std::vector<Strategy> strategies = strategies_of(workload);
  require_config(!strategies.empty(), "no split of {} devices divides {}", workload.cluster.devices,
                 options.model);
  const int threads = std::clamp<int>(static_cast<int>(std::thread::hardware_concurrency()), 1, 64);
  const Rate rate = measure(workload, strategies, threads, options.seconds);
  const double per_second = static_cast<double>(rate.priced) / rate.seconds;
  const double per_cpu_second = static_cast<double>(rate.priced) / std::max(rate.cpu_s, 1e-9);
  if (options.json) {
    const nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                         {"kind", "bench_pricing"},
                                         {"model", options.model},
                                         {"cluster", options.cluster},
                                         {"threads", threads},
                                         {"strategies", strategies.size()},
                                         {"priced", rate.priced},
                                         {"seconds", rate.seconds},
                                         {"per_second", per_second}};
    console.out << json.dump(2) << '\n';
    return 0;
  }
  const std::string text = fmt::format(
      "{} on {}: {} strategies, priced {} times in {:.2f} s by {} {}: {} a second, {} for a second "
      "of one core\n",
      options.model, options.cluster, with_thousands(static_cast<int64_t>(strategies.size())),
      with_thousands(rate.priced), rate.seconds, threads, threads == 1 ? "thread" : "threads",
      with_thousands(static_cast<int64_t>(per_second)),
      with_thousands(static_cast<int64_t>(per_cpu_second)));
  console.out << fitted(console, text);
  return 0;
}

}  // namespace tessera

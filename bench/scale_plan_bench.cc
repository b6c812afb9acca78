// Times the plan of one configuration of Llama-3-405B on 16,384 ranks: memory, traffic and price.
// cold: nothing is known; warm: the templates of its stages are. Processor time, so that a busy
// machine does not count.
// usage: scale_plan_bench [runs]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "cost/hardware/catalogue.h"
#include "plan/memory_limit.h"
#include "plan/plan.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

RunSpec spec_of(const Cluster& cluster, const std::vector<std::string>& more) {
  std::vector<std::string> changes = {
      "model.preset=llama-3-405b", "parallel.tp=8",      "parallel.sequence_parallel=true",
      "parallel.zero=1",           "train.seq_len=8192", "train.dtype=bf16"};
  changes.insert(changes.end(), more.begin(), more.end());
  RunSpec spec = parse_run_file("", "", changes, nullptr);
  use_cluster_defaults(spec, cluster);
  resolve(spec);
  return spec;
}

double milliseconds(const RunSpec& spec, const Cluster& cluster, ScalePlanner& planner) {
  const std::clock_t start = std::clock();
  const Plan plan = make_plan({.spec = spec, .cluster = cluster}, planner);
  const std::clock_t time = std::clock() - start;
  return plan.classes.empty() ? 0 : 1e3 * static_cast<double>(time) / CLOCKS_PER_SEC;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void time_case(const char* name, const std::vector<std::string>& changes, int runs) {
  const Cluster cluster = find_cluster("h100-16384");
  const RunSpec spec = spec_of(cluster, changes);
  std::vector<double> cold;
  std::vector<double> warm;
  for (int i = 0; i <= runs; ++i) {
    ScalePlanner planner;
    const double first = milliseconds(spec, cluster, planner);
    const double second = milliseconds(spec, cluster, planner);
    if (i == 0) continue;  // warm-up
    cold.push_back(first);
    warm.push_back(second);
  }
  std::printf("%-34s cold %7.2f ms (%.2f to %.2f), warm %7.2f ms\n", name, median(cold),
              *std::min_element(cold.begin(), cold.end()),
              *std::max_element(cold.begin(), cold.end()), median(warm));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  using tessera::time_case;
  time_case("1f1b, 16 micro-batches",
            {"parallel.pp=16", "parallel.dp=128", "train.global_batch=2048"}, runs);
  time_case("1f1b, 128 micro-batches",
            {"parallel.pp=16", "parallel.dp=128", "train.global_batch=16384"}, runs);
  time_case("1f1b, 512 micro-batches",
            {"parallel.pp=16", "parallel.dp=128", "train.global_batch=65536"}, runs);
  time_case("interleaved 4, 128 micro-batches",
            {"parallel.pp=16", "parallel.dp=128", "parallel.schedule=interleaved",
             "parallel.virtual_stages=4", "train.global_batch=16384"},
            runs);
  time_case(
      "zb-h1, 128 micro-batches",
      {"parallel.pp=16", "parallel.dp=128", "parallel.schedule=zb-h1", "train.global_batch=16384"},
      runs);
  time_case("one stage of 126 layers, ZeRO-3",
            {"parallel.fsdp=2048", "parallel.zero=3", "train.global_batch=2048"}, runs);
  return 0;
}

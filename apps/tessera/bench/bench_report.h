// What was measured, for people (columns as nccl-tests prints them), scripts and machines. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench_limit.h"
#include "bench/bench_suite.h"
#include "bench/bench_sweep.h"

namespace tessera {

struct SweepReport {
  CollectiveOp op = CollectiveOp::kAllReduce;
  int ranks = 1;
  std::vector<BenchCase> cases;
  std::vector<BenchRow> rows;
  std::optional<MemoryLimit> limit;  // none: not probed

  [[nodiscard]] int64_t wrong() const;
};

// `columns`: on a terminal that is narrower the columns that matter least are left out; 0: all are
// there.
std::string sweep_table(const BenchSuite& plan, const SweepReport& report, size_t columns = 0);
// "NAME<TAB>op<TAB>ranks<TAB>bytes<TAB>us<TAB>algbw<TAB>busbw" per row; NAME is "own" or
// "own+touch", beside what other libraries' benchmarks print.
std::string sweep_tsv(const BenchSuite& plan, const SweepReport& report);
nlohmann::ordered_json sweep_json(const SweepReport& report);
nlohmann::ordered_json suite_json(const BenchSuite& plan);

// Which algorithms a backend has for each op.
std::string algorithm_table(const BenchSuite& plan);
// What kAuto chooses for each size.
std::string choice_table(const BenchSuite& plan);

}  // namespace tessera

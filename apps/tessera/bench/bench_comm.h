// `tessera bench comm`.
#pragma once

#include <string>

#include "cli/command.h"
#include "launch/environment.h"

namespace tessera {

struct BenchCommOptions {
  std::string op = "all";        // or names, separated by commas
  std::string ranks = "";        // numbers, separated by commas; empty: 2, or as many as started
  std::string sizes = "1K-64M";  // as parse_sizes reads them
  std::string backend = "shm";
  std::string algorithm = "auto";
  std::string dtype = "f32";
  std::string reduce = "sum";
  bool in_place = false;
  bool out_of_place = false;  // neither: all_reduce in place, the others not
  double budget_s = 0.2;
  bool touch = false;
  bool explain = false;
  bool json = false;
  bool tsv = false;
  bool corrupt = false;  // spoil one result of every case, for tests
  bool rows = false;     // for the process that started this one as a rank
};
int run_bench_comm(const BenchCommOptions& options, const Environment& environment,
                   Console& console);

}  // namespace tessera

// `tessera bench serve`.
#pragma once

#include <cstdint>
#include <string>

#include "bench/bench_serve_requests.h"
#include "cli/command.h"
#include "launch/environment.h"

namespace tessera {

struct BenchServeOptions {
  std::string target = "http://127.0.0.1:8000";
  LoadShape load;  // of which `text` and `model` are flags
  int64_t seed = 1;
  int64_t concurrency = 0;  // 0: 1, or in an open loop 4096
  int64_t requests = 0;     // 0: 100, unless `seconds` says how many
  double seconds = 0;
  double timeout_s = 120;
  bool may_end = false;  // answers may be shorter than asked for
  std::string slo;
  std::string api_key_file;
  bool json = false;
};

// The environment must outlive the command.
Command add_bench_serve(CLI::App& bench, const Environment& environment);
int run_bench_serve(BenchServeOptions options, const Environment& environment, Console& console);

}  // namespace tessera

// `tessera bench pricing`.
#pragma once

#include <string>

#include "cli/command.h"

namespace tessera {

struct BenchPricingOptions {
  std::string model = "llama-3-405b";
  std::string cluster = "h100-16384";
  std::string engine = "tessera";
  double seconds = 1;
  bool json = false;
};
Command add_bench_pricing(CLI::App& bench);
int run_bench_pricing(const BenchPricingOptions& options, Console& console);

}  // namespace tessera

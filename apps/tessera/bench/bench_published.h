// `tessera bench published`.
#pragma once

#include <string>

#include "cli/command.h"

namespace tessera {

struct BenchPublishedOptions {
  std::string file;
  std::string engine;     // of all entries; empty: the one that each names
  std::string catalogue;  // folder of files instead of the catalogue's; empty: none
  bool entries = false;
  bool json = false;
};
Command add_bench_published(CLI::App& bench);
int run_bench_published(const BenchPublishedOptions& options, Console& console);

}  // namespace tessera

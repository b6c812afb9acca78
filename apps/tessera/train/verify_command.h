// `tessera verify`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "spec/run_file/run_source.h"

namespace tessera {

struct VerifyCommandOptions {
  RunSource source;
  std::vector<std::string> meshes;
  std::string hf, golden;  // compare with recorded values instead of between meshes
  std::string tokenizer;   // compare its ids with recorded ones, and nothing else
  int64_t steps = 3;
  std::string dtype;      // empty: f64; f32 for a folder alone
  std::string against;    // another type, that --dtype is compared with on one mesh
  double tolerance = -1;  // below 0: 1e-12 between meshes, 1e-9 against recorded values
  bool json = false;
  std::string inject;  // a fault to provoke, for tests
};
Command add_verify(CLI::App& root);
int run_verify(const VerifyCommandOptions& options, Console& console);

}  // namespace tessera

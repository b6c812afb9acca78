// `tessera eval`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"

namespace tessera {

struct EvalCommandOptions {
  std::string model;
  std::vector<std::string> data;
  std::string tokenizer;
  int64_t seq_len = 0;  // 0: as trained
  int64_t limit = 0;    // 0: all
  std::string ids;      // a file of ids instead of `data`
  std::string logits;   // where their logits go
  bool json = false;
};
Command add_eval(CLI::App& root);
int run_eval(const EvalCommandOptions& options, Console& console);

}  // namespace tessera

// Continues a text with the weights of a finished run, on one rank.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

struct GenerateOptions {
  std::string run_dir;
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the most likely token, ties to the lowest
  int64_t top_k = 0;         // 0: all
  uint64_t seed = 1;
};

// The prompt and its continuation. Looks back at most seq_len tokens.
std::string generate(const GenerateOptions& options);

}  // namespace tessera

// Continues a text with the weights of a finished run, on one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera {

struct GenerateOptions {
  std::string run_dir;
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the most likely token, ties to the lowest
  int64_t top_k = 0;         // 0: all
  uint64_t seed = 1;
  // Hears the text as it comes, the prompt first: whole characters. Only of a run with a tokenizer.
  std::function<void(const std::string&)> on_text = nullptr;
};

// The prompt and its continuation. Looks back at most seq_len tokens. A run with a tokenizer.json
// speaks its tokens, and ends where the model ends the text; others speak bytes.
std::string generate(const GenerateOptions& options);

}  // namespace tessera

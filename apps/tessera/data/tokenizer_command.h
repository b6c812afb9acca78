// `tessera data tokens`, `tessera data tokenizer train`, and the tokenizer's part of `tessera
// verify`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"

namespace tessera {

struct TokensOptions {
  std::string text;
  std::string tokenizer;    // a folder, or a tokenizer.json
  bool no_special = false;  // without the special tokens around a text
  bool json = false;
};
struct TokenizerTrainOptions {
  std::vector<std::string> texts;  // files and folders
  int64_t vocab = 8192;
  std::string split = "llama3";
  std::vector<std::string> special;  // empty: <|endoftext|>
  std::string out;
};
// Under `tessera data`.
std::vector<Command> add_tokenizer_commands(CLI::App& data);
int run_tokens(const TokensOptions& options, Console& console);
int run_tokenizer_train(const TokenizerTrainOptions& options, Console& console);

// Ids, offsets and decoded texts of a file of the reference library's; 1 if one differs.
int run_verify_tokenizer(const std::string& tokenizer, const std::string& golden, bool json,
                         Console& console);

}  // namespace tessera

// `tessera data chat`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace tessera {

struct DataChatOptions {
  std::string file;           // conversations, a line of JSON each
  std::string template_path;  // a template or a Hugging Face folder
  std::string template_name;  // of several in a folder; empty: as transformers chooses
  std::string now;            // "2026-11-16", for templates that print the date; empty: today
  int64_t limit = 10;         // conversations that are shown
  bool json = false;
};
Command add_data_chat(CLI::App& data);
int run_data_chat(const DataChatOptions& options, Console& console);

}  // namespace tessera

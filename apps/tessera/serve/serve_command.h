// `tessera serve`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "launch/environment.h"

namespace tessera {

struct ServeCommandOptions {
  std::string model;
  std::string mesh;  // axes dp, tp, pp, ep; empty: one rank
  std::string dtype = "f32";
  std::string device = "cpu";
  bool threads = false;  // ranks are threads of this process, however many there are
  int64_t restarts =
      -1;  // of each replica; -1: kUsualRestarts where ranks are processes, else none

  int64_t port = 8000;  // 0: any that is free
  std::string host = "127.0.0.1";
  std::string api_key_file;
  int64_t queue = 256;   // requests of a replica that wait
  double timeout_s = 0;  // of a request; 0: as long as it takes
  double drain_s = 30;   // from a signal to the end of the last answer
  bool log_requests = false;

  int64_t max_context = 0;  // tokens; 0: what the model was made for
  int64_t max_sequences = 64;
  int64_t token_budget = 2048;
  int64_t page = 16;      // tokens
  int64_t pages = 0;      // 0: as many as fit
  double memory_gib = 0;  // of all ranks; 0: what is free
  std::string admission = "expected";
  bool no_prefix_cache = false;

  std::string chat_template, tokenizer, name, trace;
  bool json = false;
};
// The environment must outlive the command.
Command add_serve(CLI::App& root, const Environment& environment);

// Serves until a signal ends it or its ranks are lost for good. Returns the exit code.
int run_serve(const ServeCommandOptions& options, const Environment& environment, Console& console);

}  // namespace tessera

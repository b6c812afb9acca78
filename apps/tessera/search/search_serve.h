// `tessera search --serve`: the mesh and the settings with which a cluster writes the most tokens
// while nobody waits longer than he may.
#pragma once

#include <string>

#include "api/serve_plan.h"
#include "cli/command.h"

namespace tessera {

struct SearchServeFlags {
  ServePlanQuery plan;                 // of the model; its mesh is what is sought
  double ttft_ms = 0;                  // for a prompt that is alone; 0: any
  double tpot_ms = 0;                  // for every next token of any text; 0: any
  int64_t prompt = 512, answer = 128;  // tokens
};
void add_search_serve(CLI::App& app, SearchServeFlags& flags);
// Throws ConfigError where one of them was given without --serve.
void refuse_search_serve(const SearchServeFlags& flags);
int run_search_serve(const SearchServeFlags& flags, int64_t top, bool json, Console& console);

}  // namespace tessera

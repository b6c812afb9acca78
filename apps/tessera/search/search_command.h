// `tessera search`.
#pragma once

#include <string>

#include "api/search.h"
#include "cli/command.h"
#include "search/search_serve.h"

namespace tessera {

struct SearchOptions {
  SearchQuery query = {};
  SearchServeFlags serve = {};  // the best mesh of a model that is served instead
  std::string out = "";         // folder of run files; empty: none
  bool json = false;
};
Command add_search(CLI::App& root);
int run_search(const SearchOptions& options, Console& console);

}  // namespace tessera

// What `tessera search` and its benchmark ask of the search.
#pragma once

#include "commands.h"
#include "search/search.h"

namespace tessera {

SearchRequest search_request(const SearchCommandOptions& options, const ModelSpec& model);

}  // namespace tessera

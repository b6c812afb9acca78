// Looks at every byte of a set of tokens.
#pragma once

#include <cstdint>

#include "data/set/token_set.h"

namespace tessera {

struct SetCheck {
  int64_t largest_id = -1;                              // -1: no tokens
  int64_t shortest_document = 0, longest_document = 0;  // in tokens
};

// Checksums (of a folder's files), where documents begin and end, and every id. `vocab`: ids must
// be below it; 0: below the set's own, where it is known. Throws ConfigError with the file, the
// place and what to do.
SetCheck check_set(const TokenSet& set, int64_t vocab);

}  // namespace tessera

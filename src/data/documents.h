// Where documents begin among tokens.
#pragma once

#include <cstdint>
#include <span>

namespace tessera {

// starts[t] = the place of the first token of the document of token t. A document ends with
// `end_token`, and the first one may have begun before these tokens.
inline void find_document_starts(std::span<const int32_t> tokens, int32_t end_token,
                                 std::span<int32_t> starts) {
  int32_t start = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    starts[t] = start;
    if (tokens[t] == end_token) start = static_cast<int32_t>(t) + 1;
  }
}

}  // namespace tessera

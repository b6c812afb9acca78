// A batch in tokens, as people speak of it, in sequences, as runs have it.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

// Sequences of `seq_len` tokens that are `tokens` together. ConfigError "WHAT is ..." where they
// are no whole number of sequences, with the nearest batches that are.
int64_t sequences_of(int64_t tokens, int64_t seq_len, const std::string& what);

}  // namespace tessera

// Simple children's stories from a grammar of our own: text that a small byte-level model can learn
// without a download.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

// Exactly `bytes` bytes of ASCII: stories of one paragraph each, a blank line between two of them,
// the last one cut at the limit, a newline at the end. A pure function of its arguments, the same
// on every platform; with more bytes the text goes on (only the final newline is replaced). Throws
// ConfigError unless bytes > 0.
std::string synth_stories(uint64_t seed, int64_t bytes);

}  // namespace tessera

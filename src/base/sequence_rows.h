// Which rows of a [tokens, …] tensor hold which positions of their sequences, when sequences are
// split over the ranks of a context-parallel group.
//
// A sequence is cut into 2 * parts equal chunks, and part p holds chunks p and 2 * parts - 1 - p
// (zigzag), so that causal attention costs every part the same. With parts = 1 it is whole.
// Planner, kernels and the batch all read their positions here.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera {

struct SequenceRows {
  static constexpr int64_t kAllParts = -1;

  int64_t seq_len = 0;  // of whole sequences
  int64_t parts = 1;
  int64_t part = 0;  // whose rows these are; kAllParts: all of part 0's, then part 1's, …

  [[nodiscard]] constexpr int64_t chunks_per_part() const { return parts == 1 ? 1 : 2; }
  [[nodiscard]] constexpr int64_t chunk_len() const {
    return seq_len / (parts * chunks_per_part());
  }
  // Chunks of one sequence that these rows hold.
  [[nodiscard]] constexpr int64_t num_chunks() const {
    return part == kAllParts ? parts * chunks_per_part() : chunks_per_part();
  }
  [[nodiscard]] constexpr int64_t length() const { return num_chunks() * chunk_len(); }

  // Chunk c of those held, counted in ascending order of position. Its tokens are adjacent rows.
  [[nodiscard]] constexpr int64_t first_position(int64_t c) const {
    if (part == kAllParts || parts == 1) return c * chunk_len();
    return (c == 0 ? part : 2 * parts - 1 - part) * chunk_len();
  }
  [[nodiscard]] constexpr int64_t first_row(int64_t c, int64_t sequence,
                                            int64_t num_sequences) const {
    if (part != kAllParts || parts == 1) return sequence * length() + c * chunk_len();
    const int64_t owner = std::min(c, 2 * parts - 1 - c);
    const int64_t half = c < parts ? 0 : 1;
    return ((owner * num_sequences + sequence) * 2 + half) * chunk_len();
  }

  // Position of the i-th token held of a sequence, in ascending order.
  [[nodiscard]] constexpr int64_t position(int64_t i) const {
    return first_position(i / chunk_len()) + i % chunk_len();
  }
  // How many of the tokens held of a sequence lie before `position`.
  [[nodiscard]] constexpr int64_t count_before(int64_t position) const {
    int64_t count = 0;
    for (int64_t c = 0; c < num_chunks(); ++c) {
      count += std::clamp<int64_t>(position - first_position(c), 0, chunk_len());
    }
    return count;
  }
};

}  // namespace tessera

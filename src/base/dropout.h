// Dropout masks that do not depend on how the work is split. Whether an element is dropped is a
// pure function of (seed, step, unit, site) and of the element's place in the global batch: the
// number of its sequence within the step, its position there, and its column or its head and key.
// Every mesh, every cut into micro-batches and every recomputation draws the same mask.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/philox.h"
#include "base/step_params.h"

namespace tessera {

// Where in a unit something is dropped.
enum class DropoutSite : uint8_t { kEmbedding, kAttention, kAttentionOutput, kMlpOutput };

struct DropoutMask {
  double rate = 0;  // share of elements that become zero; 0: none
  int64_t unit = 0;
  DropoutSite site{};
  int64_t first_sample = 0;       // number within the step of the first sequence
  std::array<uint32_t, 2> key{};  // of seed, step, unit and site: kernels fill it in
  [[nodiscard]] constexpr bool on() const { return rate > 0; }
};

constexpr std::array<uint32_t, 2> dropout_key(uint64_t seed, int64_t step, int64_t unit,
                                              DropoutSite site) {
  const auto number = static_cast<uint64_t>(step);
  const std::array<uint32_t, 4> words =
      philox({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
              static_cast<uint32_t>(unit), static_cast<uint32_t>(site)},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {words[0], words[1]};
}

// `params` is needed where something is dropped.
constexpr DropoutMask with_key(DropoutMask mask, const StepParams* params) {
  if (mask.on() && params->evaluate) mask.rate = 0;
  if (mask.on()) mask.key = dropout_key(params->seed, params->step, mask.unit, mask.site);
  return mask;
}

// A row of elements that are dropped one by one: of one token, or of one query and head.
struct DropoutRow {
  int64_t sequence = 0;  // counted from first_sample
  int64_t position = 0;
  int64_t head = 0;
};

// factors[i] for elements [begin, begin + count) of a row: 0, or 1 / (1 - rate).
template <typename A>
void dropout_factors(const DropoutMask& mask, const DropoutRow& row, int64_t begin, int64_t count,
                     A* factors) {
  const auto threshold = static_cast<uint32_t>(mask.rate * 0x1p32);
  const A kept = A{1} / (A{1} - static_cast<A>(mask.rate));
  const auto sample = static_cast<uint32_t>(mask.first_sample + row.sequence);
  for (int64_t i = begin; i < begin + count;) {
    // One draw serves four elements.
    const std::array<uint32_t, 4> draws =
        philox({static_cast<uint32_t>(i / 4), static_cast<uint32_t>(row.position), sample,
                static_cast<uint32_t>(row.head)},
               mask.key);
    const int64_t end = std::min(begin + count, (i / 4 + 1) * 4);
    for (; i < end; ++i) {
      factors[i - begin] = draws[static_cast<size_t>(i % 4)] < threshold ? A{0} : kept;
    }
  }
}

// Calls f(done, n, factors) for pieces of [begin, begin + count); `done` elements come before.
template <typename A, typename F>
void for_each_dropout_piece(const DropoutMask& mask, const DropoutRow& row, int64_t begin,
                            int64_t count, const F& f) {
  constexpr int64_t kPiece = 64;
  A factors[kPiece];
  for (int64_t done = 0; done < count; done += kPiece) {
    const int64_t piece = std::min(kPiece, count - done);
    dropout_factors(mask, row, begin + done, piece, factors);
    f(done, piece, factors);
  }
}

}  // namespace tessera

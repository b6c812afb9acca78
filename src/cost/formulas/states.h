// What training keeps of every parameter, and how ZeRO splits it. Bytes are doubles: estimates for
// any number of parameters, without padding. A plan has the exact ones.
#pragma once

#include <cstdint>

namespace tessera {

// Bytes of each parameter: 16-bit weights and gradients, AdamW in f32.
struct StateBytes {
  double weights = 2;
  double gradients = 2;
  double master = 4;   // f32 copy of the weights; 0: none
  double moments = 8;  // both
  [[nodiscard]] double optimizer() const { return master + moments; }
  [[nodiscard]] double total() const { return weights + gradients + optimizer(); }
};

inline constexpr int kZeroStages = 4;  // 0: nothing is split

// Bytes of each parameter on one of `shards` ranks: stage 1 splits the optimizer's, 2 also the
// gradients, 3 also the weights.
double bytes_per_parameter(const StateBytes& bytes, int zero_stage, double shards);

// The largest number of parameters whose states fit in `memory` bytes.
double largest_model(const StateBytes& bytes, int zero_stage, double shards, double memory);

// The fewest ranks over which the states of `parameters` fit in `memory` bytes each; 0: none.
double fewest_shards(const StateBytes& bytes, int zero_stage, double parameters, double memory);

// Elements that a rank of many sends in a step, as a multiple of the number of parameters, without
// gradient accumulation: an all-reduce is 2; reduce-scatter and all-gather are 1 each; ZeRO-3
// gathers for the forward and again for the backward pass.
double zero_volume(int zero_stage);

}  // namespace tessera

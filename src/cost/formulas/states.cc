#include "cost/formulas/states.h"

namespace tessera {
namespace {

// What every rank holds whole, and what is split.
struct Parts {
  double whole = 0;
  double split = 0;
};

Parts parts_of(const StateBytes& bytes, int zero_stage) {
  Parts parts;
  (zero_stage >= 1 ? parts.split : parts.whole) += bytes.optimizer();
  (zero_stage >= 2 ? parts.split : parts.whole) += bytes.gradients;
  (zero_stage >= 3 ? parts.split : parts.whole) += bytes.weights;
  return parts;
}

}  // namespace

double bytes_per_parameter(const StateBytes& bytes, int zero_stage, double shards) {
  const Parts parts = parts_of(bytes, zero_stage);
  return parts.whole + parts.split / shards;
}

double largest_model(const StateBytes& bytes, int zero_stage, double shards, double memory) {
  return memory / bytes_per_parameter(bytes, zero_stage, shards);
}

double fewest_shards(const StateBytes& bytes, int zero_stage, double parameters, double memory) {
  const Parts parts = parts_of(bytes, zero_stage);
  if (parameters * bytes.total() <= memory) return 1;
  const double room = memory - parameters * parts.whole;
  if (room <= 0 || parts.split == 0) return 0;
  const double exact = parameters * parts.split / room;
  // Rounded up without the library: quotients below 2^53 are exact as integers.
  if (exact >= 0x1p53) return 0;
  const auto below = static_cast<double>(static_cast<int64_t>(exact));
  return below < exact ? below + 1 : below;
}

double zero_volume(int zero_stage) { return zero_stage == 3 ? 3 : 2; }

}  // namespace tessera

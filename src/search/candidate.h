// A strategy with its price, and which of two is better.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cost/step/strategy.h"

namespace tessera {

enum class Objective : uint8_t {
  kTime,
  kMemory,  // of the fullest device; equal ones by time
  kCost,    // device-seconds of a step
};
std::string_view name_of(Objective objective);  // "time", "memory", "cost"

struct Candidate {
  Strategy strategy;
  double step_s = 0;
  int64_t peak_bytes = 0;
};

// A total order: by objective, then by the other figure, then by the strategy itself.
bool is_better(Objective objective, const Candidate& a, const Candidate& b);

// What the objective compares first.
double first_score(Objective objective, double step_s, int64_t peak_bytes);

// Tells strategies of the same price apart, in an order that has no meaning but is total.
bool comes_before(const Strategy& a, const Strategy& b);

// Plans of which none is both slower and larger than another, fastest first.
class Front {
 public:
  void add(const Candidate& candidate);
  // Whether a plan is faster than `least_s` and needs no more than `least_bytes`.
  [[nodiscard]] bool beats(double least_s, int64_t least_bytes) const;
  [[nodiscard]] const std::vector<Candidate>& plans() const { return plans_; }
  [[nodiscard]] std::vector<Candidate> sorted() const;

 private:
  std::vector<Candidate> plans_;
};

}  // namespace tessera

// Which rank computes longest. Ranks that do the same work should need the same time: one that
// needs more makes all others wait, and its machine is where to look.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "graph/mesh.h"

namespace tessera {

// More than this above the median is worth saying.
inline constexpr double kStragglerShare = 0.05;

// How long the compute stream of a rank had work to do, from the first step that counts on.
class ComputeClock {
 public:
  void add_step(double seconds) {
    seconds_ += seconds;
    ++steps_;
  }
  void reset() { *this = {}; }
  // Milliseconds per step: what is left of the steps without the waits for communication.
  [[nodiscard]] double ms_per_step(double waited_s) const;

 private:
  double seconds_ = 0;
  int64_t steps_ = 0;
};

struct Straggler {
  int rank = 0;
  double compute_ms = 0;
  double median_ms = 0;  // of the ranks of its pipeline stage, which do the same work
  [[nodiscard]] double more() const { return compute_ms / median_ms - 1; }
};

// The rank that is furthest above the median of its stage, where that is more than kStragglerShare.
// `compute_ms`: by rank. Stages of one rank have nobody to compare with.
std::optional<Straggler> find_straggler(const Mesh& mesh, const std::vector<double>& compute_ms);

// Adds "compute_ms", and "straggler" where there is one, to summary.json.
void add_compute_times(const Mesh& mesh, const std::vector<double>& compute_ms,
                       nlohmann::ordered_json& summary);

}  // namespace tessera

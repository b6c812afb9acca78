// The verdict "slow": a rank that keeps the others waiting step after step. It is said while the
// run trains; straggler.h looks back on the whole run, and finds smaller differences.
#pragma once

#include <optional>
#include <vector>

#include "graph/mesh.h"
#include "train/report/straggler.h"

namespace tessera {

inline constexpr size_t kSlowWindow = 50;         // steps that are looked at together
inline constexpr double kSlowestShare = 0.8;      // of them in which the rank was the slowest
inline constexpr double kSlowerThanMedian = 0.3;  // that its time is above the median's

// `compute_ms`: by rank, then by step of the window: without the waits for others. Ranks are
// compared with those of their pipeline stage, which do the same work.
std::optional<Straggler> find_slow_rank(const Mesh& mesh,
                                        const std::vector<std::vector<double>>& compute_ms);

}  // namespace tessera

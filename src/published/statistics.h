// How far predictions are from measurements.
#pragma once

#include <span>
#include <vector>

namespace tessera {

struct ErrorSummary {
  int n = 0;
  double mean_abs_pct = 0;
  double bias_pct = 0;   // mean of the signed errors
  double worst_pct = 0;  // the signed error that is largest
  double spearman = 0;   // rank correlation; 1 for fewer than two values
};

// Values are positive; the two lists have the same length.
ErrorSummary summarize(std::span<const double> predicted, std::span<const double> measured);

// Correlation of ranks; equal values share the mean of their ranks.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace tessera

// A sum of terms fitted to measurements. Pure, and only with + - * /: the same bits everywhere.
#pragma once

#include <span>
#include <vector>

namespace tessera {

// Coefficients, none below 0, such that the sum of coefficient times term is near every value in
// relative terms: a tenth too much counts the same for a small value as for a large one. Values far
// off the others (a disturbed measurement) pull little. `rows` has one row of terms per value;
// values are positive, terms not negative. A term that is 0 in every row gets 0.
std::vector<double> fit_non_negative(const std::vector<std::vector<double>>& rows,
                                     std::span<const double> values);

// Mean of |fitted / value - 1| over the rows.
double mean_relative_error(const std::vector<std::vector<double>>& rows,
                           std::span<const double> values, std::span<const double> coefficients);

}  // namespace tessera

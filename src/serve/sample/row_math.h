// Loops over one row of logits, compiled for the machine's widest registers. No fused
// multiply-add: the bits are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::serve {

// Copies `from` to the start of `to`. False where one of them is NaN or Inf.
bool copy_finite(std::span<const double> from, std::span<double> to);
bool copy_finite(std::span<const float> from, std::span<double> to);

double greatest(std::span<const double> values);  // -Inf of none

// value = (value - greatest) / temperature: at most 0.
void shift_and_divide(std::span<double> values, double greatest, double temperature);

// e^x to a unit in the last place or two, for x <= 0; below -690 it is 0.
void exp_of_row(std::span<const double> values, std::span<double> result);

// The sum of e^(x - greatest), in four lanes by position and then together.
double sum_of_exp(std::span<const double> values, double greatest);

}  // namespace tessera::serve

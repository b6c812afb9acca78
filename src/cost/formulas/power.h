// Powers with the same bits everywhere: the library's pow differs from machine to machine.
#pragma once

namespace tessera {

// base^exponent for a positive base and exponents up to 10000 in size; to 14 digits.
double power(double base, double exponent);

// Natural logarithm of a positive number.
double natural_log(double x);

}  // namespace tessera

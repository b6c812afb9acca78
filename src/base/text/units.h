// Units of memory that figures are given in.
#pragma once

namespace tessera {

inline constexpr double kGibibyte = 1024.0 * 1024 * 1024;

}  // namespace tessera

// The one place that reads toml++. It reads numbers with std::from_chars, which is the same
// everywhere; streams, which it would take otherwise, refuse the smallest numbers on some
// platforms.
#pragma once

#define TOML_FLOAT_CHARCONV 1
#include <toml++/toml.h>

// The key that clients of `tessera serve` must know.
#pragma once

#include <string>

#include "launch/environment.h"

namespace tessera {

// The first line of `path`, else TESSERA_API_KEY; empty: neither is given. Throws ConfigError for a
// file that cannot be read or says nothing, and for a key that anybody would guess.
std::string api_key(const std::string& path, const Environment& environment);

}  // namespace tessera

// The installed headers, for the sources that define what they declare: the rest of the library is
// hidden from programs that link it (CMakeLists.txt beside this).
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
#include <tessera/tessera.h>
#pragma GCC visibility pop

// How the pure folders reach files: through a function that somebody passes in.
#pragma once

#include <functional>
#include <string>

namespace tessera {

// Reads a file that a run file or a command line names; throws ConfigError if it cannot.
using FileReader = std::function<std::string(const std::string& path)>;

}  // namespace tessera

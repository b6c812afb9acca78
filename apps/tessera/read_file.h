// Files that a command or a run file names.
#pragma once

#include <string>

namespace tessera {

// The whole file; throws ConfigError if it cannot be read.
std::string read_text(const std::string& path);

}  // namespace tessera

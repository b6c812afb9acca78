// Whole files as text, for commands whose work is done by the core, which opens none.
#pragma once

#include <string>

namespace tessera {

// ConfigError with the system's reason, and for more than 64 MiB.
std::string read_text(const std::string& path);

}  // namespace tessera

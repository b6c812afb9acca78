// Whole files as text, for commands whose work is done by the core, which opens none.
#pragma once

#include <string>

namespace tessera {

std::string read_text(const std::string& path);  // ConfigError with the system's reason

}  // namespace tessera

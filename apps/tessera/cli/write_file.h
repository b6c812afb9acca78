// Files that a command writes beside what it prints.
#pragma once

#include <string>

#include "cli/terminal.h"

namespace tessera {

// Compressed where the name ends in .gz. Says so on standard error, unless the console is quiet.
// Throws Error.
void write_file(const std::string& path, const std::string& text, Console& console);

}  // namespace tessera

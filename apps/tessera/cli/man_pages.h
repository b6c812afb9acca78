// Manual pages of the commands, made by walking the CLI11 tree: what help says, for man(1).
#pragma once

#include <string>

#include "cli/command.h"

namespace tessera {

// The page of one command in roff, "tessera-data-synth(1)".
std::string man_page(const CLI::App& app, const std::string& version);

// Writes DIR/tessera.1 and one more for every command, and makes DIR where it is not there.
void write_man_pages(const CLI::App& root, const std::string& dir, const std::string& version,
                     Console& console);

}  // namespace tessera

// `tessera completion`.
#pragma once

#include <string>

#include "cli/command.h"

namespace tessera {

Command add_completion(CLI::App& root);
// A script for "bash", "zsh" or "fish" that knows every command and flag of the tree.
std::string completion_script(const CLI::App& root, const std::string& shell);

}  // namespace tessera

// What people probably meant by a word that the command line does not know: flags of other systems,
// commands by another name, run files and keys in the wrong place.
#pragma once

#include <string>

#include "cli/command.h"

namespace tessera {

// "; here it is --tp", about a flag `name` that `command` does not have, without its value. Empty
// where nothing is known of it.
std::string flag_meant(const CLI::App& command, const std::string& name);

// "; tessera plan run.toml shows what it needs, ..." about a word where a command should stand.
std::string command_meant(const CLI::App& command, const std::string& word);

// "; a value with spaces goes between quotes" about an argument that nothing takes.
std::string argument_meant(const CLI::App& command, const std::string& word);

// "; there is --bytes, --ranks", of a command that has few; else empty.
std::string flags_there_are(const CLI::App& command);

}  // namespace tessera

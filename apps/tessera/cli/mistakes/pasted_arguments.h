// Command lines that were pasted from a page: dashes, quotes and spaces that only look like those
// of a keyboard.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// ConfigError with the argument, what is wrong with it, and how to type it. What follows --prompt
// may be any text, and a file may be called anything.
void refuse_pasted(const std::vector<std::string>& args);

}  // namespace tessera

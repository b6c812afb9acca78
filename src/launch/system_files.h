// What the system says in the files of /proc and /sys. Empty where a file is missing or says
// nothing.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

std::string first_line(const std::string& path);

// The value of the first "key<spaces>: value" line.
std::string proc_value(const std::string& path, std::string_view key);

}  // namespace tessera

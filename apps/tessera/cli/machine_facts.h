// What the system says about the machine.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// The value of the first "key<spaces>: value" line of a /proc file, or empty.
std::string proc_value(const std::string& path, std::string_view key);

std::string processor_name();  // "AMD EPYC"; "a processor" where the system does not say

}  // namespace tessera

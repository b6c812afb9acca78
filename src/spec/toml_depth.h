// A guard before parsing TOML.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Tables are read by recursion, and a key of half a million parts ("a.a.a…") overflows the stack.
// Throws ConfigError with the place of a key that has more parts than any file of ours.
void refuse_deep_keys(std::string_view text, const std::string& file_name);

}  // namespace tessera

// Texts that nobody else has.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

std::string random_token();  // 32 hexadecimal digits from the system

// In a time that tells nobody where two tokens of one length differ.
bool same_token(std::string_view a, std::string_view b);

}  // namespace tessera

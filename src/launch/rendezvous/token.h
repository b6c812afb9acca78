// Texts that nobody else has.
#pragma once

#include <string>

namespace tessera {

std::string random_token();  // 32 hexadecimal digits from the system

}  // namespace tessera

// A folder that no other user of this host can look into or replace.
#pragma once

#include <string>

namespace tessera {

// ROOT/tessera-USER, made where it is not there. Throws ConfigError where it belongs to somebody
// else, is a link, or others may use it.
std::string private_folder(const std::string& root);

}  // namespace tessera

#include "read_text.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace tessera {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require_config(file.good(), "cannot open '{}': {}", path, std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  // A folder opens but cannot be read.
  require_config(!file.bad() && (text.good() || file.eof()), "cannot read '{}'", path);
  return std::move(text).str();
}

}  // namespace tessera

#include "cli/read_text.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace tessera {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require_config(file.good(), "cannot open '{}': {}", path, std::strerror(errno));
  // A folder opens but cannot be read; an empty file has nothing to copy.
  const bool empty = file.peek() == std::ifstream::traits_type::eof();
  require_config(!file.bad(), "cannot read '{}'", path);
  std::ostringstream text;
  if (!empty) text << file.rdbuf();
  require_config(text.good(), "cannot read '{}'", path);
  return std::move(text).str();
}

}  // namespace tessera

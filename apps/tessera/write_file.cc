#include "write_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace tessera {

void write_file(const std::string& path, const std::string& text, Console& console) {
  std::ofstream file(path, std::ios::binary);
  require(file.good(), "cannot create '{}': {}", path, std::strerror(errno));
  file << text << std::flush;
  require(file.good(), "cannot write {} bytes to '{}': {}", text.size(), path,
          std::strerror(errno));
  if (!console.quiet) console.err << "wrote " << path << '\n';
}

}  // namespace tessera

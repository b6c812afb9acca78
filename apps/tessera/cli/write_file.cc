#include "cli/write_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "cli/gzip.h"

namespace tessera {

void write_file(const std::string& path, const std::string& text, Console& console) {
  std::ofstream file(path, std::ios::binary);
  require(file.good(), "cannot create '{}': {}", path, std::strerror(errno));
  const std::string packed = path.ends_with(".gz") ? gzip(text) : "";
  const std::string& bytes = path.ends_with(".gz") ? packed : text;
  file << bytes << std::flush;
  require(file.good(), "cannot write {} bytes to '{}': {}", bytes.size(), path,
          std::strerror(errno));
  if (!console.quiet) console.err << "wrote " << path << '\n';
}

}  // namespace tessera

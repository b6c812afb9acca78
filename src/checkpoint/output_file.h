// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tessera {

// Writes to path.tmp; commit() syncs it and renames it to `path`. Without commit() the destructor
// removes path.tmp. Every failure throws Error with the path and the reason.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  OutputFile(OutputFile&&) = delete;
  OutputFile& operator=(OutputFile&&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  void close();

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

}  // namespace tessera

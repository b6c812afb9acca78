// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tessera {

// Writes to a new file beside `path`, whose name (path.RANDOM.tmp) nobody can guess: two writers of
// one path do not meet, and a link that waits there is never written through. commit() syncs it and
// renames it to `path`; without it the destructor removes it. The umask decides who may read it.
// Every failure throws Error with the path and the reason.
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
  // The same without waiting for the disk, for what can be written again.
  void commit_unsynced();

  // Whether `name` is what a writer of `path` that was killed leaves behind.
  static bool is_leftover(const std::string& name, const std::string& path);

 private:
  void rename_into_place();
  void close();

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

}  // namespace tessera

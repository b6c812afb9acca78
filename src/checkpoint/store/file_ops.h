// All that a store of checkpoints does with files. Everything lies right in one folder, the root,
// or in a folder right in it; nothing is reached through a link or an absolute name. Tests put a
// disk in its place that forgets what was not synced.
//
// A failure of the disk throws IoError with the path, the reason and the fix; a file or folder that
// is not there throws Error with ExitCode::kAbsent. Names are those of store_names.h, or were read
// from the folder itself. Thread-safe, but for a NewFile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera {

// `folder` empty: right in the root.
struct StorePath {
  std::string folder;
  std::string name;
};

// A file that did not exist before. Closed by the destructor; what was not synced may be lost.
class NewFile {
 public:
  virtual ~NewFile() = default;
  // Room for a file of this size, so that a full disk is noticed before anything is written.
  virtual void preallocate(int64_t bytes) = 0;
  virtual void write(std::span<const std::byte> bytes) = 0;  // at the end of what was written
  virtual void sync() = 0;                                   // the bytes and the size
};

// A regular file, opened for reading at given offsets.
class OldFile {
 public:
  virtual ~OldFile() = default;
  [[nodiscard]] virtual int64_t size() const = 0;  // when it was opened
  // Fills `out`. Throws Error with ExitCode::kCorrupt where the file has become shorter.
  virtual void read_at(int64_t offset, std::span<std::byte> out) const = 0;
};

enum class EntryKind : uint8_t { kFile, kFolder, kOther };  // a link is kOther
struct StoreEntry {
  std::string name;
  EntryKind kind = EntryKind::kFile;
};

class FileOps {
 public:
  virtual ~FileOps() = default;
  [[nodiscard]] virtual std::string path_text(const StorePath& path) const = 0;  // for messages

  virtual void make_folder(const std::string& folder) = 0;  // fails where it exists; mode 0700
  [[nodiscard]] virtual std::unique_ptr<NewFile> create(const StorePath& path) = 0;  // 0600
  [[nodiscard]] virtual std::unique_ptr<OldFile> open(const StorePath& path) const = 0;
  // Within a folder; replaces what is there.
  virtual void rename_file(const std::string& folder, const std::string& from,
                           const std::string& to) = 0;
  // In the root; fails where `to` exists.
  virtual void rename_folder(const std::string& from, const std::string& to) = 0;
  virtual void remove_file(const StorePath& path) = 0;        // nothing where it is not there
  virtual void remove_folder(const std::string& folder) = 0;  // which is empty
  virtual void sync_folder(const std::string& folder) = 0;    // its names; empty: the root's
  // Sorted by name.
  [[nodiscard]] virtual std::vector<StoreEntry> list(const std::string& folder) const = 0;
};

// The files of a real folder. It is opened once: what is put in its place later is not followed.
// `path` itself may be reached through links. Throws Error with ExitCode::kAbsent where there is no
// folder; `make`: it is made, with its parents.
std::unique_ptr<FileOps> real_files(const std::string& path, bool make = false);

// For both kinds of disk: all of a small file, refused above `most_bytes` before it is read.
std::string read_small_file(const FileOps& files, const StorePath& path, int64_t most_bytes);
// Under a temporary name, synced, renamed into place, and the folder synced.
void write_small_file(FileOps& files, const StorePath& path, const std::string& text);

}  // namespace tessera

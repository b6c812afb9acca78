// Files of another FileOps, with a say before every change: whoever waits for a disk sees that it
// gets on, and can have it stop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/store/file_ops.h"

namespace tessera {

// Called on the thread that makes the change, with its kind ("write", "sync", "create", "make
// room", "make folder", "rename", "remove", "sync folder") and bytes, if it has any. What it throws
// is thrown in place of the change. Called by several threads at once where the files are.
using BeforeChange = std::function<void(const char* kind, int64_t bytes)>;

class WatchedFiles : public FileOps {
 public:
  // `files` must outlive it, and so must its new files.
  WatchedFiles(FileOps& files, BeforeChange before) : files_(files), before_(std::move(before)) {}

  [[nodiscard]] std::string path_text(const StorePath& path) const override;
  void make_folder(const std::string& folder) override;
  [[nodiscard]] std::unique_ptr<NewFile> create(const StorePath& path) override;
  [[nodiscard]] std::unique_ptr<OldFile> open(const StorePath& path) const override;
  void rename_file(const std::string& folder, const std::string& from,
                   const std::string& to) override;
  void rename_folder(const std::string& from, const std::string& to) override;
  void remove_file(const StorePath& path) override;
  void remove_folder(const std::string& folder) override;
  void sync_folder(const std::string& folder) override;
  [[nodiscard]] std::vector<StoreEntry> list(const std::string& folder) const override;

 private:
  FileOps& files_;
  BeforeChange before_;
};

}  // namespace tessera

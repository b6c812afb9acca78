#include "checkpoint/store/watched_files.h"

#include <utility>

namespace tessera {
namespace {

class WatchedFile : public NewFile {
 public:
  WatchedFile(std::unique_ptr<NewFile> file, const BeforeChange& before)
      : file_(std::move(file)), before_(before) {}

  void preallocate(int64_t bytes) override {
    before_("make room", bytes);
    file_->preallocate(bytes);
  }
  void write(std::span<const std::byte> bytes) override {
    before_("write", std::ssize(bytes));
    file_->write(bytes);
  }
  void sync() override {
    before_("sync", 0);
    file_->sync();
  }

 private:
  std::unique_ptr<NewFile> file_;
  const BeforeChange& before_;
};

}  // namespace

std::string WatchedFiles::path_text(const StorePath& path) const { return files_.path_text(path); }

void WatchedFiles::make_folder(const std::string& folder) {
  before_("make folder", 0);
  files_.make_folder(folder);
}

std::unique_ptr<NewFile> WatchedFiles::create(const StorePath& path) {
  before_("create", 0);
  return std::make_unique<WatchedFile>(files_.create(path), before_);
}

std::unique_ptr<OldFile> WatchedFiles::open(const StorePath& path) const {
  return files_.open(path);
}

void WatchedFiles::rename_file(const std::string& folder, const std::string& from,
                               const std::string& to) {
  before_("rename", 0);
  files_.rename_file(folder, from, to);
}

void WatchedFiles::rename_folder(const std::string& from, const std::string& to) {
  before_("rename", 0);
  files_.rename_folder(from, to);
}

void WatchedFiles::remove_file(const StorePath& path) {
  before_("remove", 0);
  files_.remove_file(path);
}

void WatchedFiles::remove_folder(const std::string& folder) {
  before_("remove", 0);
  files_.remove_folder(folder);
}

void WatchedFiles::sync_folder(const std::string& folder) {
  before_("sync folder", 0);
  files_.sync_folder(folder);
}

std::vector<StoreEntry> WatchedFiles::list(const std::string& folder) const {
  return files_.list(folder);
}

}  // namespace tessera

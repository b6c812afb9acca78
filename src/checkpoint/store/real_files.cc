#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "checkpoint/store/file_ops.h"
#include "checkpoint/store/store_error.h"

namespace tessera {
namespace {

constexpr mode_t kFileMode = 0600, kFolderMode = 0700;  // less what the umask takes

// Owner of a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  if (error == ENOENT) fail_absent(path, "does not exist");
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  throw IoError(fmt::format("cannot {} '{}': {}; {}", what, path, std::strerror(error),
                            full ? "make room, or keep fewer checkpoints"
                                 : "check the disk, the folder and its permissions"));
}

class RealNewFile : public NewFile {
 public:
  RealNewFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  void preallocate(int64_t bytes) override {
    if (bytes == 0) return;
    const int error = ::posix_fallocate(file_.get(), 0, bytes);
    // Some file systems cannot; then a full disk is noticed later.
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) fail("make room for", path_, error);
  }

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t put = ::write(file_.get(), bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) fail("write", path_, put == 0 ? EIO : errno);
      bytes = bytes.subspan(static_cast<size_t>(put));
    }
  }

  void sync() override {
    if (::fdatasync(file_.get()) != 0) fail("write", path_, errno);
  }

 private:
  std::string path_;
  Descriptor file_;
};

class RealOldFile : public OldFile {
 public:
  RealOldFile(std::string path, Descriptor file, int64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  [[nodiscard]] int64_t size() const override { return size_; }

  void read_at(int64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t got = ::pread(file_.get(), out.data(), out.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("read", path_, errno);
      if (got == 0) {
        fail_corrupt(path_, fmt::format("it ends at byte {} but had {} bytes when it was opened",
                                        offset, size_));
      }
      out = out.subspan(static_cast<size_t>(got));
      offset += got;
    }
  }

 private:
  std::string path_;
  Descriptor file_;
  int64_t size_;
};

EntryKind kind_of(int folder, const char* name) {
  struct stat status {};
  if (::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return EntryKind::kOther;
  if (S_ISREG(status.st_mode)) return EntryKind::kFile;
  return S_ISDIR(status.st_mode) ? EntryKind::kFolder : EntryKind::kOther;
}

class RealFiles : public FileOps {
 public:
  RealFiles(std::string path, Descriptor root) : path_(std::move(path)), root_(std::move(root)) {}

  [[nodiscard]] std::string path_text(const StorePath& path) const override {
    std::string text = path_;
    if (!path.folder.empty()) text += "/" + path.folder;
    return path.name.empty() ? text : text + "/" + path.name;
  }

  void make_folder(const std::string& folder) override {
    if (::mkdirat(root_.get(), folder.c_str(), kFolderMode) != 0) {
      fail("make", path_text({folder, ""}), errno);
    }
  }

  [[nodiscard]] std::unique_ptr<NewFile> create(const StorePath& path) override {
    const Descriptor folder = open_folder(path.folder);
    Descriptor file(::openat(folder.get(), path.name.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
    if (!file.valid()) fail("create", path_text(path), errno);
    return std::make_unique<RealNewFile>(path_text(path), std::move(file));
  }

  [[nodiscard]] std::unique_ptr<OldFile> open(const StorePath& path) const override {
    const Descriptor folder = open_folder(path.folder);
    // O_NONBLOCK: opening a pipe must not wait for its writer.
    Descriptor file(
        ::openat(folder.get(), path.name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid() && errno == ELOOP) fail_corrupt(path_text(path), "it is a link");
    if (!file.valid()) fail("open", path_text(path), errno);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) fail("read", path_text(path), errno);
    if (!S_ISREG(status.st_mode)) fail_corrupt(path_text(path), "it is not a regular file");
    return std::make_unique<RealOldFile>(path_text(path), std::move(file), status.st_size);
  }

  void rename_file(const std::string& folder, const std::string& from,
                   const std::string& to) override {
    const Descriptor parent = open_folder(folder);
    if (::renameat(parent.get(), from.c_str(), parent.get(), to.c_str()) != 0) {
      fail("rename", path_text({folder, from}), errno);
    }
  }

  // A folder that is renamed replaces an empty one, which no folder of a store is for long.
  void rename_folder(const std::string& from, const std::string& to) override {
    if (::renameat(root_.get(), from.c_str(), root_.get(), to.c_str()) != 0) {
      fail("rename", path_text({from, ""}), errno);
    }
  }

  void remove_file(const StorePath& path) override {
    const Descriptor folder = open_folder(path.folder);
    if (::unlinkat(folder.get(), path.name.c_str(), 0) != 0 && errno != ENOENT) {
      fail("remove", path_text(path), errno);
    }
  }

  void remove_folder(const std::string& folder) override {
    if (::unlinkat(root_.get(), folder.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      fail("remove", path_text({folder, ""}), errno);
    }
  }

  void sync_folder(const std::string& folder) override {
    const Descriptor parent = open_folder(folder);
    // Some file systems cannot sync a folder and say EINVAL.
    if (::fsync(parent.get()) != 0 && errno != EINVAL)
      fail("write", path_text({folder, ""}), errno);
  }

  [[nodiscard]] std::vector<StoreEntry> list(const std::string& folder) const override {
    const Descriptor parent = open_folder(folder);
    // A descriptor of its own, because closedir() closes it.
    const int copy = ::openat(parent.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* stream = copy < 0 ? nullptr : ::fdopendir(copy);
    if (stream == nullptr) fail("list", path_text({folder, ""}), errno);
    std::vector<StoreEntry> entries;
    while (const dirent* entry = ::readdir(stream)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..")
        entries.push_back({name, kind_of(parent.get(), name.c_str())});
    }
    ::closedir(stream);
    std::ranges::sort(entries, {}, &StoreEntry::name);
    return entries;
  }

 private:
  [[nodiscard]] Descriptor open_folder(const std::string& folder) const {
    Descriptor opened(::openat(root_.get(), folder.empty() ? "." : folder.c_str(),
                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!opened.valid()) fail("open", path_text({folder, ""}), errno);
    return opened;
  }

  std::string path_;
  Descriptor root_;
};

}  // namespace

std::unique_ptr<FileOps> real_files(const std::string& path, bool make) {
  if (make) {
    std::error_code failure;
    std::filesystem::create_directories(path, failure);
    if (failure) fail("make", path, failure.value());
  }
  Descriptor root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid() && errno == ENOTDIR)
    fail_absent(path, "is no folder: name a run directory or a folder of checkpoints");
  if (!root.valid()) fail("open", path, errno);
  return std::make_unique<RealFiles>(path, std::move(root));
}

}  // namespace tessera

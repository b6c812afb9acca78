#include "checkpoint/testing/crash_disk.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "checkpoint/store/store_error.h"

namespace tessera::testing {
namespace {

constexpr size_t kAllSubsets = 8;   // up to so many pending changes
constexpr int kRandomSubsets = 24;  // beyond

class CrashNewFile : public NewFile {
 public:
  CrashNewFile(CrashDisk& disk, CrashDisk::NodePtr node) : disk_(disk), node_(std::move(node)) {}

  void preallocate(int64_t bytes) override {
    disk_.begin_change("make room");
    if (bytes > disk_.most_write) throw IoError("no room");
    node_->bytes.resize(std::max(node_->bytes.size(), static_cast<size_t>(bytes)), '\0');
    disk_.end_change();
  }
  void write(std::span<const std::byte> bytes) override {
    disk_.begin_change("write");
    if (at_ + std::ssize(bytes) > disk_.most_write) throw IoError("no room");
    const size_t end = static_cast<size_t>(at_) + bytes.size();
    if (node_->bytes.size() < end) node_->bytes.resize(end);
    if (!bytes.empty()) std::memcpy(node_->bytes.data() + at_, bytes.data(), bytes.size());
    at_ = static_cast<int64_t>(end);
    disk_.end_change();
  }
  void sync() override {
    disk_.begin_change("sync");
    if (!disk_.ignore_file_syncs) node_->synced_bytes = node_->bytes;
    disk_.end_change();
  }

 private:
  CrashDisk& disk_;
  CrashDisk::NodePtr node_;
  int64_t at_ = 0;
};

class CrashOldFile : public OldFile {
 public:
  CrashOldFile(std::string path, CrashDisk::NodePtr node)
      : path_(std::move(path)), node_(std::move(node)) {}
  [[nodiscard]] int64_t size() const override { return std::ssize(node_->bytes); }
  void read_at(int64_t offset, std::span<std::byte> out) const override {
    if (offset + std::ssize(out) > size()) fail_corrupt(path_, "it ends early");
    if (!out.empty()) std::memcpy(out.data(), node_->bytes.data() + offset, out.size());
  }

 private:
  std::string path_;
  CrashDisk::NodePtr node_;
};

std::string bytes_after(const CrashDisk::Node& file, UnsyncedBytes fate) {
  if (file.bytes == file.synced_bytes) return file.bytes;
  switch (fate) {
    case UnsyncedBytes::kLost:
      return file.synced_bytes;
    case UnsyncedBytes::kKept:
      return file.bytes;
    case UnsyncedBytes::kZeros: {
      std::string zeros(file.bytes.size(), '\0');
      std::copy(file.synced_bytes.begin(), file.synced_bytes.end(), zeros.begin());
      return zeros;
    }
    case UnsyncedBytes::kHalf:
      return file.bytes.substr(0, file.bytes.size() / 2);
  }
  return "";
}

CrashDisk::Names names_after(const CrashDisk::Node& folder, const std::vector<bool>& kept,
                             size_t first) {
  CrashDisk::Names names = folder.synced_names;
  for (size_t i = 0; i < folder.pending.size(); ++i) {
    if (!kept[first + i]) continue;
    for (const auto& [name, node] : folder.pending[i]) {
      if (node) {
        names[name] = node;
      } else {
        names.erase(name);
      }
    }
  }
  return names;
}

// Which of `count` changes are kept, in turn.
std::vector<std::vector<bool>> subsets(size_t count) {
  std::vector<std::vector<bool>> all;
  if (count <= kAllSubsets) {
    for (size_t bits = 0; bits < size_t{1} << count; ++bits) {
      std::vector<bool> kept(count);
      for (size_t i = 0; i < count; ++i) kept[i] = (bits >> i & 1U) != 0;
      all.push_back(std::move(kept));
    }
    return all;
  }
  for (size_t end = 0; end <= count; ++end) {  // in order, as a journal would
    std::vector<bool> kept(count, false);
    std::fill(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(end), true);
    all.push_back(std::move(kept));
  }
  for (size_t i = 0; i < count; ++i) {
    std::vector<bool> without(count, true), alone(count, false);
    without[i] = false;
    alone[i] = true;
    all.push_back(std::move(without));
    all.push_back(std::move(alone));
  }
  std::mt19937 dice(static_cast<uint32_t>(count));
  for (int i = 0; i < kRandomSubsets; ++i) {
    std::vector<bool> kept(count);
    for (size_t j = 0; j < count; ++j) kept[j] = (dice() & 1U) != 0;
    all.push_back(std::move(kept));
  }
  return all;
}

std::string signature(const CrashDisk& disk) {
  std::string text;
  for (const auto& [name, bytes] : disk.contents()) {
    text += fmt::format("{}:{}:{}\n", name, bytes.size(), std::hash<std::string>()(bytes));
  }
  return text;
}

}  // namespace

CrashDisk::CrashDisk() : root_(std::make_shared<Node>()) { root_->folder = true; }

void CrashDisk::begin_change(const std::string& what) {
  const bool fails = fail_at_ >= 0 && (fails_on_ ? changes_ >= fail_at_ : changes_ == fail_at_);
  if (!fails) return;
  ++changes_;
  throw IoError(fmt::format("cannot {}: injected", what));
}

void CrashDisk::end_change() {
  ++changes_;
  if (on_change) on_change(changes_);
}

void CrashDisk::change(Node& folder, Change change) {
  for (const auto& [name, node] : change) {
    if (node) {
      folder.names[name] = node;
    } else {
      folder.names.erase(name);
    }
  }
  folder.pending.push_back(std::move(change));
}

CrashDisk::Node& CrashDisk::folder_of(const std::string& folder) const {
  if (folder.empty()) return *root_;
  const auto found = root_->names.find(folder);
  if (found == root_->names.end() || !found->second->folder) {
    fail_absent(path_text({folder, ""}), "does not exist");
  }
  return *found->second;
}

std::pair<CrashDisk::Node*, std::string> CrashDisk::split(const std::string& path) const {
  const size_t slash = path.find('/');
  if (slash == std::string::npos) return {root_.get(), path};
  return {&folder_of(path.substr(0, slash)), path.substr(slash + 1)};
}

std::vector<std::unique_ptr<CrashDisk>> CrashDisk::images(std::set<std::string>& seen) const {
  std::vector<const Node*> folders = {root_.get()};
  // Also those that only an unsynced change leads to, or no longer does.
  const auto add = [&](const NodePtr& node) {
    if (node && node->folder && std::ranges::find(folders, node.get()) == folders.end()) {
      folders.push_back(node.get());
    }
  };
  for (const auto& [name, node] : root_->names) add(node);
  for (const auto& [name, node] : root_->synced_names) add(node);
  for (const Change& change : root_->pending) {
    for (const auto& [name, node] : change) add(node);
  }
  std::map<const Node*, size_t> first;
  size_t count = 0;
  for (const Node* folder : folders) {
    first[folder] = count;
    count += folder->pending.size();
  }
  std::vector<std::unique_ptr<CrashDisk>> images;
  for (const std::vector<bool>& kept : subsets(count)) {
    for (const UnsyncedBytes fate : {UnsyncedBytes::kLost, UnsyncedBytes::kKept,
                                     UnsyncedBytes::kZeros, UnsyncedBytes::kHalf}) {
      auto image = std::make_unique<CrashDisk>();
      for (const auto& [name, node] : names_after(*root_, kept, first.at(root_.get()))) {
        if (!node->folder) {
          image->put(name, bytes_after(*node, fate));
          continue;
        }
        image->put(name + "/", "");
        for (const auto& [inner, file] : names_after(*node, kept, first.at(node.get()))) {
          image->put(name + "/" + inner, bytes_after(*file, fate));
        }
      }
      if (seen.insert(signature(*image)).second) images.push_back(std::move(image));
    }
  }
  return images;
}

std::unique_ptr<CrashDisk> CrashDisk::copy() const {
  auto image = std::make_unique<CrashDisk>();
  for (const auto& [name, bytes] : contents()) image->put(name, bytes);
  return image;
}

std::map<std::string, std::string> CrashDisk::contents() const {
  std::map<std::string, std::string> all;
  for (const auto& [name, node] : root_->names) {
    if (!node->folder) {
      all[name] = node->bytes;
      continue;
    }
    all[name + "/"] = "";
    for (const auto& [inner, file] : node->names) all[name + "/" + inner] = file->bytes;
  }
  return all;
}

std::string& CrashDisk::bytes_of(const std::string& path) {
  const auto [folder, name] = split(path);
  return folder->names.at(name)->bytes;
}

void CrashDisk::put(const std::string& path, const std::string& bytes) {
  auto node = std::make_shared<Node>();
  if (path.ends_with('/')) {
    node->folder = true;
    const std::string name = path.substr(0, path.size() - 1);
    root_->names[name] = root_->synced_names[name] = node;
    return;
  }
  node->bytes = node->synced_bytes = bytes;
  const auto [folder, name] = split(path);
  folder->names[name] = folder->synced_names[name] = node;
}

void CrashDisk::erase(const std::string& path) {
  const auto [folder, name] = split(path);
  folder->names.erase(name);
  folder->synced_names.erase(name);
}

std::string CrashDisk::path_text(const StorePath& path) const {
  return path.folder.empty() ? path.name : path.folder + (path.name.empty() ? "" : "/" + path.name);
}

void CrashDisk::make_folder(const std::string& folder) {
  begin_change("make");
  if (root_->names.contains(folder)) throw IoError("'" + folder + "' exists");
  auto node = std::make_shared<Node>();
  node->folder = true;
  change(*root_, {{folder, node}});
  end_change();
}

std::unique_ptr<NewFile> CrashDisk::create(const StorePath& path) {
  Node& folder = folder_of(path.folder);
  begin_change("create");
  if (folder.names.contains(path.name)) throw IoError("'" + path_text(path) + "' exists");
  auto node = std::make_shared<Node>();
  change(folder, {{path.name, node}});
  end_change();
  return std::make_unique<CrashNewFile>(*this, node);
}

std::unique_ptr<OldFile> CrashDisk::open(const StorePath& path) const {
  const Node& folder = folder_of(path.folder);
  const auto found = folder.names.find(path.name);
  if (found == folder.names.end()) fail_absent(path_text(path), "does not exist");
  if (found->second->folder) fail_corrupt(path_text(path), "it is not a regular file");
  return std::make_unique<CrashOldFile>(path_text(path), found->second);
}

void CrashDisk::rename_file(const std::string& folder, const std::string& from,
                            const std::string& to) {
  Node& parent = folder_of(folder);
  begin_change("rename");
  const auto found = parent.names.find(from);
  if (found == parent.names.end()) fail_absent(path_text({folder, from}), "does not exist");
  const NodePtr node = found->second;
  change(parent, {{from, nullptr}, {to, node}});
  end_change();
}

void CrashDisk::rename_folder(const std::string& from, const std::string& to) {
  begin_change("rename");
  const auto found = root_->names.find(from);
  if (found == root_->names.end()) fail_absent(from, "does not exist");
  if (root_->names.contains(to)) throw IoError("'" + to + "' exists");
  const NodePtr node = found->second;
  change(*root_, {{from, nullptr}, {to, node}});
  end_change();
}

void CrashDisk::remove_file(const StorePath& path) {
  Node& folder = folder_of(path.folder);
  if (!folder.names.contains(path.name)) return;
  begin_change("remove");
  change(folder, {{path.name, nullptr}});
  end_change();
}

void CrashDisk::remove_folder(const std::string& folder) {
  if (!root_->names.contains(folder)) return;
  begin_change("remove");
  if (!folder_of(folder).names.empty()) throw IoError("'" + folder + "' is not empty");
  change(*root_, {{folder, nullptr}});
  end_change();
}

void CrashDisk::sync_folder(const std::string& folder) {
  Node& node = folder_of(folder);
  begin_change("sync");
  if (!ignore_folder_syncs) {
    node.synced_names = node.names;
    node.pending.clear();
  }
  end_change();
}

std::vector<StoreEntry> CrashDisk::list(const std::string& folder) const {
  std::vector<StoreEntry> entries;
  for (const auto& [name, node] : folder_of(folder).names) {
    entries.push_back({name, node->folder ? EntryKind::kFolder : EntryKind::kFile});
  }
  return entries;
}

}  // namespace tessera::testing

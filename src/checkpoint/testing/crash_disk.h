// For tests: a disk in memory that knows what a real one would have after power was lost at any
// moment. Bytes count as kept once their file was synced, names once their folder was; of all that
// was not, any part may be there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/store/file_ops.h"

namespace tessera::testing {

// What became of bytes that were written and not synced.
enum class UnsyncedBytes : uint8_t { kLost, kKept, kZeros, kHalf };

class CrashDisk : public FileOps {
 public:
  CrashDisk();
  CrashDisk(const CrashDisk& other) = delete;
  CrashDisk& operator=(const CrashDisk& other) = delete;

  // Called after everything that changes something, with how many changes there were.
  std::function<void(int64_t change)> on_change;
  // The change of this number throws IoError instead, and so do all after it if `stays`.
  void fail_at(int64_t change, bool stays) {
    fail_at_ = change;
    fails_on_ = stays;
  }
  void repair() { fail_at_ = -1; }
  [[nodiscard]] int64_t changes() const { return changes_; }
  int64_t most_write = INT64_MAX;  // longer writes throw IoError: a limit on sizes of files
  bool ignore_folder_syncs = false, ignore_file_syncs = false;  // for negative controls

  // What the disk may hold if power is lost now: all combinations of names where there are few,
  // else the likely ones and some at random; with every kind of unsynced bytes. Each once.
  [[nodiscard]] std::vector<std::unique_ptr<CrashDisk>> images(std::set<std::string>& seen) const;
  [[nodiscard]] std::unique_ptr<CrashDisk> copy() const;  // all of it, synced

  // All names and contents.
  [[nodiscard]] std::map<std::string, std::string> contents() const;
  // For damage: the bytes of a file, "folder/name".
  std::string& bytes_of(const std::string& path);
  void put(const std::string& path, const std::string& bytes);  // as if it had always been there
  void erase(const std::string& path);

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

  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  using Names = std::map<std::string, NodePtr>;
  // Names that get another meaning together; null: none.
  using Change = std::vector<std::pair<std::string, NodePtr>>;
  struct Node {
    bool folder = false;
    std::string bytes, synced_bytes;  // of a file
    Names names, synced_names;        // of a folder
    std::vector<Change> pending;      // since it was synced
  };

  void begin_change(const std::string& what);  // throws where it is to fail
  void end_change();

 private:
  [[nodiscard]] Node& folder_of(const std::string& folder) const;
  [[nodiscard]] std::pair<Node*, std::string> split(const std::string& path) const;
  void change(Node& folder, Change change);

  NodePtr root_;
  int64_t changes_ = 0;
  int64_t fail_at_ = -1;
  bool fails_on_ = false;
};

}  // namespace tessera::testing

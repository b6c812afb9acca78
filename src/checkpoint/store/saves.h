// The saves of a folder: which are there, which can be used, which may go.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/store/checkpoint_folder.h"
#include "checkpoint/store/file_ops.h"
#include "checkpoint/store/store_names.h"

namespace tessera {

struct StoredSave {
  std::string folder;
  bool committed = false;  // has a COMMIT, good or not
  bool pinned = false;
  int64_t step = -1;  // -1: an unfinished save, whose step nobody knows
  // Where the folder still has the name of a save in progress.
  std::optional<SaveId> in_progress = std::nullopt;
};

// By step, those without one first; other folders are passed over. A committed save that still has
// the name of one in progress counts with the step that its COMMIT says, if it can be read.
std::vector<StoredSave> list_saves(const FileOps& files);

// Called with what cannot be used, and why.
using OnRejected = std::function<void(const StoredSave& save, const Error& why)>;

// Which saves may be used.
struct LoadRules {
  bool allow_unchecked = false;  // also those whose sums are missing
  // By folder, why not: a bad block of data shows only when it is read.
  std::map<std::string, Error, std::less<>> damaged = {};
};

// The newest committed save that passes quick_check(); of equal steps the one whose name is not
// that of a save in progress comes last. Nothing where no save is committed. Throws Error where all
// that are committed are damaged, with the reason of the newest: to begin anew would lose them; and
// where the newest is of a newer format, which an older one must not stand in for.
std::optional<CheckpointFolder> newest_good(const FileOps& files, const OnRejected& on_rejected,
                                            const LoadRules& rules = {});

// Which unfinished saves nobody works on any more: those of this run and a lower generation, or of
// any run where `all`.
struct DeadSaves {
  std::string run = {};
  uint64_t generation = 0;
  bool all = false;
};

struct RecoveryReport {
  std::vector<std::string> adopted;    // folders that got the name of their step
  std::vector<std::string> collected;  // that were removed
};

// What is done before a run goes on with a folder. Committed saves get the name of their step;
// unfinished ones that are dead go, and so do what retention left half-way and temporary files.
RecoveryReport recover_saves(FileOps& files, const DeadSaves& dead);

struct Retention {
  int64_t keep = 2;        // the newest so many, at least 1
  int64_t keep_every = 0;  // and every step that is a multiple of it; 0: none
  // The step that was saved last. Later ones are what a run went back behind because they could not
  // be read: they stay, and count for nothing.
  int64_t newest = kMostStep;
};

// Folders that may go. Pure. Never the newest.
std::vector<std::string> retired_by(const std::vector<StoredSave>& saves, const Retention& rule);

// Removes them, oldest first, once the newest has passed quick_check(); else nothing is removed and
// the reason thrown. Returns what was removed.
std::vector<std::string> apply_retention(FileOps& files, const Retention& rule);

}  // namespace tessera

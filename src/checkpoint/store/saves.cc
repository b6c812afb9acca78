#include "checkpoint/store/saves.h"

#include <algorithm>
#include <set>

#include "checkpoint/store/committer.h"
#include "checkpoint/store/store_error.h"

namespace tessera {
namespace {

bool has_commit(const FileOps& files, const std::string& folder) {
  return std::ranges::any_of(files.list(folder),
                             [](const StoreEntry& entry) { return entry.name == kCommitFile; });
}

// -1 where COMMIT cannot be read.
int64_t step_in_commit(const FileOps& files, const std::string& folder) {
  const StorePath path{folder, std::string(kCommitFile)};
  try {
    return parse_commit(read_small_file(files, path, kMostCommitBytes), files.path_text(path))
        .head.step;
  } catch (const Error&) {
    return -1;
  }
}

bool is_dead(const StoredSave& save, const DeadSaves& dead) {
  if (save.committed) return false;
  if (dead.all || !save.in_progress) return true;  // a step without COMMIT: retention was cut off
  return save.in_progress->run == dead.run && save.in_progress->generation < dead.generation;
}

// Whether a save that still has the name of one in progress is whole, so that it may replace what
// has the name of its step.
bool is_good(const FileOps& files, const std::string& folder) {
  try {
    quick_check(files, open_checkpoint(files, folder));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<StoredSave> list_saves(const FileOps& files) {
  const std::vector<StoreEntry> entries = files.list("");
  std::set<std::string, std::less<>> names;
  for (const StoreEntry& entry : entries) names.insert(entry.name);
  std::vector<StoredSave> saves;
  for (const StoreEntry& entry : entries) {
    if (entry.kind != EntryKind::kFolder) continue;
    StoredSave save;
    save.folder = entry.name;
    const auto step = step_of_folder(entry.name);
    save.in_progress = in_progress_of_folder(entry.name);
    if (!step && !save.in_progress) continue;
    save.committed = has_commit(files, entry.name);
    if (step) save.step = *step;
    if (save.in_progress && save.committed) save.step = step_in_commit(files, entry.name);
    save.pinned = save.step >= 0 && names.contains(pin_file(save.step));
    saves.push_back(std::move(save));
  }
  std::ranges::stable_sort(saves, {}, &StoredSave::step);
  return saves;
}

std::optional<CheckpointFolder> newest_good(const FileOps& files, const OnRejected& on_rejected,
                                            const LoadRules& rules) {
  std::vector<StoredSave> saves = list_saves(files);
  std::ranges::reverse(saves);
  std::optional<Error> first;
  for (const StoredSave& save : saves) {
    if (!save.committed) continue;
    try {
      const auto known = rules.damaged.find(save.folder);
      if (known != rules.damaged.end()) throw Error(known->second);
      CheckpointFolder checkpoint = open_checkpoint(files, save.folder, rules.allow_unchecked);
      quick_check(files, checkpoint);
      return checkpoint;
    } catch (const Error& error) {
      if (error.code() == ExitCode::kVersion) throw;
      if (on_rejected) on_rejected(save, error);
      if (!first) first = error;
    }
  }
  if (first) throw Error(*first);
  return std::nullopt;
}

RecoveryReport recover_saves(FileOps& files, const DeadSaves& dead) {
  RecoveryReport report;
  for (const StoredSave& save : list_saves(files)) {
    if (save.in_progress && save.committed && save.step >= 0 && is_good(files, save.folder)) {
      publish(files, save.folder, save.step);
      report.adopted.push_back(step_folder(save.step));
    }
  }
  for (const StoredSave& save : list_saves(files)) {
    if (!is_dead(save, dead)) continue;
    if (retire(files, save.folder)) report.collected.push_back(save.folder);
  }
  files.remove_file({"", std::string(kLatestFile) + ".tmp"});
  return report;
}

std::vector<std::string> retired_by(const std::vector<StoredSave>& saves, const Retention& rule) {
  std::vector<const StoredSave*> committed;  // newest first
  for (auto save = saves.rbegin(); save != saves.rend(); ++save) {
    const bool counts = save->committed && !save->in_progress && save->step <= rule.newest;
    if (counts) committed.push_back(&*save);
  }
  std::vector<std::string> retired;
  const auto keep = static_cast<size_t>(std::max<int64_t>(1, rule.keep));
  for (size_t i = committed.size(); i-- > keep;) {
    const StoredSave& save = *committed[i];
    const bool kept = rule.keep_every > 0 && save.step % rule.keep_every == 0;
    if (!save.pinned && !kept) retired.push_back(save.folder);
  }
  return retired;
}

std::vector<std::string> apply_retention(FileOps& files, const Retention& rule) {
  const std::vector<StoredSave> saves = list_saves(files);
  const std::vector<std::string> retired = retired_by(saves, rule);
  if (retired.empty()) return {};
  const auto newest = std::find_if(saves.rbegin(), saves.rend(), [&](const StoredSave& save) {
    return save.committed && save.step <= rule.newest;
  });
  quick_check(files, open_checkpoint(files, newest->folder));
  for (const std::string& folder : retired) retire(files, folder);
  return retired;
}

}  // namespace tessera

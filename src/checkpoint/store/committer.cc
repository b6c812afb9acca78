#include "checkpoint/store/committer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sha256.h"
#include "checkpoint/store/commit_file.h"
#include "checkpoint/store/store_error.h"

namespace tessera {
namespace {

// By rank.
std::vector<ShardAck> checked_acks(const SavePlan& plan, const Manifest& manifest,
                                   std::span<const ShardAck> acks) {
  std::vector<ShardAck> sorted(static_cast<size_t>(plan.world()));
  std::vector<bool> seen(sorted.size(), false);
  for (const ShardAck& ack : acks) {
    require(ack.id == manifest.head.id, "rank {} wrote a shard of {}, but the save is {}", ack.rank,
            text_of(ack.id), text_of(manifest.head.id));
    require(ack.rank >= 0 && ack.rank < plan.world(), "a shard is of rank {}, but there are {}",
            ack.rank, plan.world());
    const auto rank = static_cast<size_t>(ack.rank);
    require(!seen[rank], "rank {} acknowledged its shard twice", ack.rank);
    require(ack.bytes == manifest.files[rank].bytes,
            "rank {} wrote a shard of {} bytes, but it should have {}", ack.rank, ack.bytes,
            manifest.files[rank].bytes);
    seen[rank] = true;
    sorted[rank] = ack;
  }
  const auto missing = std::ranges::find(seen, false);
  require(missing == seen.end(), "rank {} has not written its shard", missing - seen.begin());
  return sorted;
}

void write_new_file(FileOps& files, const StorePath& path, const std::string& text) {
  const std::unique_ptr<NewFile> file = files.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->sync();
}

bool is_ours(std::string_view name) {
  if (name.ends_with(".tmp")) name.remove_suffix(4);
  return name == kManifestFile || name == kStateFile || name == kCommitFile || is_shard_file(name);
}

bool has_folder(const FileOps& files, const std::string& name) {
  return std::ranges::any_of(files.list(""),
                             [&](const StoreEntry& entry) { return entry.name == name; });
}

// Where what people have put into the folder of a step goes when that step is saved again.
std::string place_for_kept(const FileOps& files, const std::string& step_folder) {
  for (int number = 1;; ++number) {
    const std::string place =
        number == 1 ? step_folder + ".kept" : fmt::format("{}.kept-{}", step_folder, number);
    if (!has_folder(files, place)) return place;
  }
}

}  // namespace

void begin_save(FileOps& files, const SaveId& id) {
  TESSERA_CHECK(is_id(id.run) && is_id(id.save), "{}", text_of(id));
  files.make_folder(in_progress_folder(id));
}

void join_save(FileOps& files, const SaveId& id) {
  try {
    begin_save(files, id);
  } catch (const Error&) {
    if (!has_folder(files, in_progress_folder(id))) throw;
  }
}

void commit_save(FileOps& files, const SavePlan& plan, const SaveId& id, int64_t step,
                 std::span<const ShardAck> acks, const nlohmann::json& state) {
  TESSERA_CHECK(state.is_object(), "the state of a save is no object");
  TESSERA_CHECK(step >= 0 && step <= kMostStep, "step {}", step);
  const std::string folder = in_progress_folder(id);
  const Manifest manifest = manifest_of(plan, id, step);
  CommitFile commit;
  commit.head = manifest.head;
  for (const ShardAck& ack : checked_acks(plan, manifest, acks)) {
    commit.crc_hashes[crc_file(ack.rank, plan.world())] = ack.sums_hash;
  }
  const std::string manifest_text = dump_store_json(to_json(manifest));
  nlohmann::json whole_state = state;
  whole_state.update(head_json(id, step));
  const std::string state_text = dump_store_json(whole_state);
  commit.manifest_hash = sha256_hex(manifest_text);
  commit.state_hash = sha256_hex(state_text);
  write_new_file(files, {folder, std::string(kManifestFile)}, manifest_text);
  write_new_file(files, {folder, std::string(kStateFile)}, state_text);
  files.sync_folder(folder);  // the names of all shards too
  write_small_file(files, {folder, std::string(kCommitFile)}, text_of_commit(commit));
  publish(files, folder, step);
  write_small_file(files, {"", std::string(kLatestFile)}, step_folder(step) + "\n");
}

void abandon_save(FileOps& files, const SaveId& id) {
  if (has_folder(files, in_progress_folder(id))) retire(files, in_progress_folder(id));
}

void publish(FileOps& files, const std::string& folder, int64_t step) {
  const std::string name = step_folder(step);
  // The folder itself may be younger than the last sync of the root.
  files.sync_folder("");
  if (has_folder(files, name) && !retire(files, name)) {
    files.rename_folder(name, place_for_kept(files, name));
    files.sync_folder("");
  }
  files.rename_folder(folder, name);
  files.sync_folder("");
}

bool retire(FileOps& files, const std::string& folder) {
  const std::vector<StoreEntry> entries = files.list(folder);
  files.remove_file({folder, std::string(kCommitFile)});
  files.sync_folder(folder);
  size_t left = entries.size();
  for (const StoreEntry& entry : entries) {
    if (entry.kind != EntryKind::kFile || !is_ours(entry.name)) continue;
    files.remove_file({folder, entry.name});
    --left;
  }
  if (left > 0) return false;
  files.remove_folder(folder);
  files.sync_folder("");
  return true;
}

}  // namespace tessera

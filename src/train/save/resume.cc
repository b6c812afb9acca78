#include "train/save/resume.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sha256.h"
#include "checkpoint/store/saves.h"
#include "checkpoint/store/store_error.h"
#include "spec/run_file/run_file.h"
#include "train/samples/run_sets.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// Empty where the run reads bytes.
std::string tokenizer_hash(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  std::string folder = data.is_sets() ? tokenizer_folder_of(spec, training_sets(spec)) : "";
  if (!data.chats.empty()) folder = data.tokenizer.empty() ? spec.model.hf : data.tokenizer;
  return folder.empty() ? "" : tokenizer_hash_in(folder);
}

// Newer saves would count as the newest of the run, and retention would take what it makes now.
void require_newest(const ResumePoint& point) {
  for (const StoredSave& save : list_saves(*real_files(point.dir))) {
    require_config(
        !save.committed || save.step <= point.step(),
        "cannot go on from '{}/{}' in the same directory, where {} is newer: set another "
        "logging.run_dir, or remove the newer ones",
        point.dir, point.checkpoint.folder, save.folder);
  }
}

std::optional<CheckpointFolder> newest_in(const std::string& dir,
                                          const std::function<void(const std::string&)>& note,
                                          const ResumeRules& rules) {
  const std::unique_ptr<FileOps> files = real_files(dir);
  const auto tell = [&](const StoredSave& save, const Error& why) {
    note(fmt::format("{}/{} is passed over: {}", dir, save.folder, why.what()));
  };
  return newest_good(*files, tell, rules.rules_in(dir));
}

void tell_unchecked(const ResumePoint& point, const std::function<void(const std::string&)>& note) {
  for (const std::string& name : shards_without_sums(*real_files(point.dir), point.checkpoint)) {
    note(fmt::format("{}/{}/{} has no checksums: it is read unchecked", point.dir,
                     point.checkpoint.folder, name));
  }
}

// What a checkpoint means that has no such key, because it is older: whatever a key brings, its
// default is what was done before. Null: every checkpoint has it.
nlohmann::json value_where_absent(const std::string& key) {
  static constexpr std::string_view kModel = "model.";
  const nlohmann::json usual = to_json(RunSpec());
  if (key.starts_with(kModel)) {
    return usual.at("model").value(key.substr(kModel.size()), nlohmann::json());
  }
  return key == "train.lanes" ? usual.at("train").at("lanes") : nlohmann::json();
}

void require_same(const ResumePoint& point, const RunSpec& spec) {
  const nlohmann::json mine = identity_of_run(spec);
  const auto found = point.checkpoint.state.find("identity");
  if (found == point.checkpoint.state.end() || !found->is_object()) {
    fail_corrupt(point.dir + "/" + point.checkpoint.folder + "/state.json",
                 "it does not say which run it is of");
  }
  for (const auto& [key, value] : mine.items()) {
    const nlohmann::json theirs = found->contains(key) ? found->at(key) : value_where_absent(key);
    require_config(
        theirs == value,
        "cannot go on from '{}/{}': {} is {} there, but {} in this run; use the run file "
        "that made it",
        point.dir, point.checkpoint.folder, key, theirs.dump(), value.dump());
  }
}

}  // namespace

std::string tokenizer_hash_in(const std::string& folder) {
  std::ifstream file(fs::path(folder) / "tokenizer.json", std::ios::binary);
  if (!file.good()) return "";
  return sha256_hex(std::string(std::istreambuf_iterator<char>(file), {}));
}

LoadRules ResumeRules::rules_in(const std::string& dir) const {
  LoadRules rules;
  rules.allow_unchecked = allow_unchecked;
  const auto found = damaged.find(dir);
  if (found != damaged.end()) rules.damaged = found->second;
  return rules;
}

ResumePoint open_checkpoint_at(const std::string& path,
                               const std::function<void(const std::string&)>& rejected,
                               const ResumeRules& rules) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    fail_absent(path, "is no folder: name a checkpoint, a folder of them, or a run directory");
  }
  fs::path place = fs::absolute(path).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();
  if (fs::exists(place / kCommitFile, ignored) || step_of_folder(place.filename().string())) {
    const std::string dir = place.parent_path().string();
    const std::unique_ptr<FileOps> files = real_files(dir);
    CheckpointFolder checkpoint =
        open_checkpoint(*files, place.filename().string(), rules.allow_unchecked);
    quick_check(*files, checkpoint);
    return {.dir = dir, .checkpoint = std::move(checkpoint), .named = true};
  }
  if (fs::is_directory(place / "checkpoints", ignored)) place /= "checkpoints";
  std::optional<CheckpointFolder> newest = newest_in(place.string(), rejected, rules);
  if (!newest) fail_absent(path, "holds no checkpoint: name a folder that has step-* folders");
  return {.dir = place.string(), .checkpoint = std::move(*newest)};
}

nlohmann::json identity_of_run(const RunSpec& spec) {
  nlohmann::json identity;
  const nlohmann::json model = to_json(spec).at("model");
  for (const auto& [key, value] : model.items()) {
    // Where it came from, and how it began, do not matter any more.
    if (key == "preset" || key == "hf" || key == "init_std") continue;
    identity["model." + key] = value;
  }
  identity["train.dtype"] = spec.train.dtype_name();
  if (spec.train.fp8.on()) identity["train.fp8_recipe"] = name_of(spec.train.fp8.recipe);
  identity["optimizer.kind"] = name_of(spec.optimizer.kind);
  identity["train.seed"] = spec.train.seed;
  identity["train.global_batch"] = spec.train.global_batch;
  identity["train.seq_len"] = spec.train.seq_len;
  identity["train.lanes"] = spec.train.lanes;
  // Every number of replicas gives the same bits, but not every number of threads.
  if (spec.train.lanes > 0) identity["train.threads"] = spec.train.threads;
  identity["tokenizer"] = tokenizer_hash(spec);
  return identity;
}

std::optional<ResumePoint> find_resume_point(const std::string& resume, const std::string& own_dir,
                                             const RunSpec& spec,
                                             const std::function<void(const std::string&)>& note,
                                             const ResumeRules& rules) {
  if (resume.empty()) return std::nullopt;
  std::optional<ResumePoint> point;
  std::error_code ignored;
  if (resume != "auto") {
    point = open_checkpoint_at(resume, note, rules);
  } else if (fs::is_directory(own_dir, ignored)) {
    std::optional<CheckpointFolder> newest = newest_in(own_dir, note, rules);
    if (newest) point = ResumePoint{.dir = own_dir, .checkpoint = std::move(*newest)};
  }
  if (!point) return std::nullopt;
  point->same_place = fs::equivalent(point->dir, own_dir, ignored);
  if (point->same_place && resume != "auto") require_newest(*point);
  require_same(*point, spec);
  if (rules.allow_unchecked) tell_unchecked(*point, note);
  return point;
}

}  // namespace tessera

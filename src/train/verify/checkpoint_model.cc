#include "train/verify/checkpoint_model.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/json.h"
#include "checkpoint/store/saves.h"
#include "checkpoint/store/store_error.h"
#include "spec/run_file/run_file.h"
#include "train/save/resume.h"
#include "train/weights/checkpoint_weights.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kModelKey = "model.";

fs::path plain(const std::string& path) {
  const fs::path place = fs::absolute(path).lexically_normal();
  return place.filename().empty() ? place.parent_path() : place;
}

bool names_step(const fs::path& path) {
  const std::string name = path.filename().string();
  return step_of_folder(name) || in_progress_of_folder(name);
}

bool holds_steps(const fs::path& path) {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(path, failure)) {
    if (names_step(entry.path())) return true;
  }
  return false;
}

ResumePoint strictly_newest(const std::string& path) {
  std::string refused;
  ResumePoint point =
      open_checkpoint_at(path, [&](const std::string& why) { refused = refused + why; });
  if (refused.empty()) return point;
  throw Error(fmt::format("{}; name one to use it nevertheless: '{}/{}'", refused, point.dir,
                          point.checkpoint.folder),
              ExitCode::kCorrupt);
}

RunSpec spec_of(const ResumePoint& point) {
  const std::string file = point.dir + "/" + point.checkpoint.folder + "/state.json";
  const auto found = point.checkpoint.state.find("identity");
  if (found == point.checkpoint.state.end() || !found->is_object()) {
    fail_corrupt(file, "it does not say which model it is of");
  }
  ordered_json run = to_json(RunSpec());
  for (const auto& [key, value] : found->items()) {
    if (key.starts_with(kModelKey)) run["model"][key.substr(kModelKey.size())] = value;
  }
  try {
    run["train"]["dtype"] = found->at("train.dtype");
    run["train"]["seq_len"] = found->at("train.seq_len");
    return run_spec_from_json(run);
  } catch (const std::exception& error) {
    fail_corrupt(file, fmt::format("what it says of the model cannot be read: {}", error.what()));
  }
}

// How the run began, as its directory says: no part of what a checkpoint is of.
void add_beginning(const std::string& run, ModelSpec& model) {
  const std::string path = run + "/resolved.json";
  std::ifstream in(path, std::ios::binary);
  if (run.empty() || !in.good()) return;
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const RunSpec began = run_spec_from_json(parse_json(text, path));
  model.hf = began.model.hf;
  model.init_std = began.model.init_std;
}

}  // namespace

std::optional<CheckpointModel> find_checkpoint_model(const std::string& path) {
  const fs::path place = plain(path);
  std::error_code ignored;
  if (!fs::exists(place, ignored)) {
    if (names_step(place))
      fail_absent(path, "does not exist: name a checkpoint or a run directory");
    return std::nullopt;
  }
  const bool other = fs::exists(place / "resolved.json") || fs::exists(place / "config.json");
  const bool one = is_checkpoint(place.string()) || names_step(place);
  if (other || !fs::is_directory(place) || (!one && !holds_steps(place))) return std::nullopt;
  const ResumePoint point = strictly_newest(path);
  CheckpointModel model;
  model.path = point.dir + "/" + point.checkpoint.folder;
  const fs::path around = fs::path(point.dir).parent_path();
  if (fs::exists(around / "resolved.json", ignored)) model.run = around.string();
  model.spec = spec_of(point);
  add_beginning(model.run, model.spec.model);
  model.tokenizer_hash = point.checkpoint.state.at("identity").value("tokenizer", "");
  const std::string beside = model.run.empty() ? "" : tokenizer_hash_in(model.run);
  require_config(beside.empty() || model.tokenizer_hash.empty() || beside == model.tokenizer_hash,
                 "'{}' was trained with a tokenizer of SHA-256 {}, but that in '{}' has {}: they "
                 "do not belong together",
                 path, model.tokenizer_hash, model.run, beside);
  return model;
}

}  // namespace tessera

#include "train/directory/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "checkpoint/output_file.h"
#include "train/directory/metrics_cut.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// Weights first: they are what must not be lost should the moving be cut off.
constexpr std::array<std::string_view, 13> kRunFiles = {
    "model.safetensors", "weights.safetensors",   "config.json",  "summary.json", "metrics.jsonl",
    "resolved.json",     "resolved.toml",         "schedule.csv", "plan.json",    "config.toml",
    "tokenizer.json",    "tokenizer_config.json", "events.jsonl"};
// Those of its end; weights.safetensors by Tessera before 0.2.
bool is_result(std::string_view name) {
  return name == "model.safetensors" || name == "weights.safetensors" || name == "config.json" ||
         name == "summary.json";
}

constexpr std::string_view kCheckpoints = "checkpoints";

std::string in_folder(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

bool is_there(const std::string& path) {
  std::error_code failure;
  return fs::exists(fs::symlink_status(path, failure));
}

std::string_view kind_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::symlink:
      return "a link";
    case fs::file_type::fifo:
      return "a named pipe";
    case fs::file_type::directory:
      return "a folder";
    default:
      return "not a plain file";
  }
}

void require_moved(const std::error_code& failure, const std::string& from, const std::string& to) {
  require_config(!failure, "cannot move '{}' to '{}': {}; set logging.run_dir", from, to,
                 failure.message());
}

// To a folder that is a run directory itself, so that its weights can be used as before.
// TensorBoard's, whose names have the time in them.
void move_event_files(const std::string& folder, const std::string& place) {
  std::error_code failure;
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("events.out.tfevents.")) names.push_back(name);
  }
  for (const std::string& name : names) {
    fs::rename(in_folder(folder, name), in_folder(place, name), failure);
    require_moved(failure, in_folder(folder, name), place);
  }
}

std::string move_former_run(const std::string& folder) {
  if (run_file_in(folder).empty()) return "";
  std::string place = place_for_former_run(folder);
  std::error_code failure;
  fs::create_directory(place, failure);
  require_moved(failure, folder, place);
  for (const std::string_view name : kRunFiles) {
    const std::string from = in_folder(folder, name);
    if (!is_there(from)) continue;
    fs::rename(from, in_folder(place, name), failure);
    require_moved(failure, from, place);
  }
  if (is_there(in_folder(folder, kCheckpoints))) {
    fs::rename(in_folder(folder, kCheckpoints), in_folder(place, kCheckpoints), failure);
    require_moved(failure, in_folder(folder, kCheckpoints), place);
  }
  move_event_files(folder, place);
  return place;
}

// What a run that was cut off before its first step, or while it wrote a file, leaves behind.
void remove_leftovers(const std::string& folder) {
  std::error_code failure;
  fs::remove(in_folder(folder, "metrics.jsonl"), failure);
  fs::remove(in_folder(folder, "events.jsonl"), failure);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    const bool left = std::any_of(kRunFiles.begin(), kRunFiles.end(), [&](std::string_view file) {
      return OutputFile::is_leftover(name, std::string(file));
    });
    if (left) fs::remove(entry.path(), failure);
  }
}

}  // namespace

// A run writes resolved.json first. Without it, even a config.toml is somebody else's; with it, the
// run may have been cut off before its first step, and what it has begun may be replaced.
std::string run_file_in(const std::string& folder) {
  const bool began = is_there(in_folder(folder, "resolved.json"));
  for (const std::string_view name : kRunFiles) {
    const std::string path = in_folder(folder, name);
    std::error_code failure;
    const bool nothing = name == "metrics.jsonl" && fs::file_size(path, failure) == 0;
    const bool counts = !began || name == "metrics.jsonl" || is_result(name);
    if (is_there(path) && counts && !nothing) return std::string(name);
  }
  std::error_code failure;
  const fs::path saves = in_folder(folder, kCheckpoints);
  const bool saved = fs::is_directory(saves, failure) && !fs::is_empty(saves, failure);
  return saved ? std::string(kCheckpoints) : "";
}

bool was_cut_off(const std::string& folder) {
  return is_there(in_folder(folder, "resolved.json")) &&
         std::ranges::none_of(kRunFiles, [&](std::string_view name) {
           return is_result(name) && is_there(in_folder(folder, name));
         });
}

std::string place_for_former_run(const std::string& folder) {
  for (int number = 1;; ++number) {
    const std::string name = number == 1 ? "previous" : fmt::format("previous-{}", number);
    const std::string place = in_folder(folder, name);
    if (!is_there(place)) return place;
  }
}

void require_plain_run_files(const std::string& folder) {
  for (const std::string_view name : kRunFiles) {
    const std::string path = in_folder(folder, name);
    std::error_code failure;
    const fs::file_type type = fs::symlink_status(path, failure).type();
    const bool fine = type == fs::file_type::not_found || type == fs::file_type::none ||
                      type == fs::file_type::regular;
    require_config(fine, "'{}' is {}: remove it, or set another logging.run_dir", path,
                   kind_of(type));
  }
}

void RunDirectory::make_folder() const {
  std::error_code failure;
  fs::create_directories(path_, failure);
  require_config(!failure, "cannot create the run directory '{}': {}; set logging.run_dir", path_,
                 failure.message());
  require_plain_run_files(path_);
}

RunDirectory::RunDirectory(std::string path, int64_t step) : path_(std::move(path)) {
  make_folder();
  drop_metrics_after(file("metrics.jsonl"), step);
  if (is_there(file("metrics.jsonl"))) {
    continue_metrics();
  } else {
    open_metrics();
  }
  lock_ = identity_of(file("run.lock"));
}

RunDirectory::RunDirectory(std::string path) : path_(std::move(path)) {
  make_folder();
  former_run_ = move_former_run(path_);
  remove_leftovers(path_);
  open_metrics();
  lock_ = identity_of(file("run.lock"));
}

// Nothing: there is no such file. Links are not followed.
RunDirectory::Identity RunDirectory::identity_of(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return std::pair<uint64_t, uint64_t>(status.st_dev, status.st_ino);
}

// The file is new: links that others put there are not followed.
void RunDirectory::open_metrics() {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
  metrics_ = UniqueFd(::open(file("metrics.jsonl").c_str(), kFlags, 0666));
  require_config(metrics_.valid(),
                 "cannot write in the run directory '{}': {}; set logging.run_dir", path_,
                 std::strerror(errno));
}

void RunDirectory::write_text(const std::string& name, const std::string& text) const {
  OutputFile out(file(name));
  out.write(std::as_bytes(std::span(text)));
  out.commit_unsynced();
}

void RunDirectory::write_json(const std::string& name, const nlohmann::ordered_json& json) const {
  write_text(name, json.dump(2) + "\n");
}

bool RunDirectory::append_metrics(nlohmann::ordered_json line) {
  for (auto& [key, value] : line.items()) {
    if (!value.is_number_float()) continue;
    const auto number = value.get<double>();
    if (std::isnan(number)) value = "NaN";
    if (std::isinf(number)) value = number > 0 ? "Infinity" : "-Infinity";
  }
  const std::string text = line.dump() + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t put = ::write(metrics_.get(), rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    rest.remove_prefix(static_cast<size_t>(put));
  }
  if (rest.empty()) {
    metrics_bytes_ += static_cast<int64_t>(text.size());
    return true;
  }
  // Whole lines stay; where not even that can be had, the next line goes behind the torn one.
  if (::ftruncate(metrics_.get(), metrics_bytes_) != 0) {
    metrics_bytes_ += static_cast<int64_t>(text.size() - rest.size());
  }
  return false;
}

// Files stay in use while they are open, so no other gets the number of one that was removed.
bool RunDirectory::is_ours() const {
  const Identity found = identity_of(file("run.lock"));
  return found == lock_ || (own_lock_.has_value() && found == second_lock_);
}

bool RunDirectory::metrics_are_there() const {
  struct stat status {};
  if (!metrics_.valid() || ::fstat(metrics_.get(), &status) != 0) return false;
  return identity_of(file("metrics.jsonl")) ==
         std::pair<uint64_t, uint64_t>(status.st_dev, status.st_ino);
}

bool RunDirectory::vanished() const { return !is_ours() || !metrics_are_there(); }

// Another run may have found the name free, and may even have come to its end.
void RunDirectory::take_folder() {
  RunLock lock = RunLock::take(path_);
  const std::string found = metrics_are_there() ? "" : run_file_in(path_);
  require(found.empty(), "the run directory '{}' holds another run now ({})", path_, found);
  require_plain_run_files(path_);
  second_lock_ = identity_of(file("run.lock"));
  own_lock_.emplace(std::move(lock));
}

bool RunDirectory::make_again() {
  std::error_code failure;
  fs::create_directories(path_, failure);
  require(!failure, "cannot create the run directory '{}': {}", path_, failure.message());
  if (!is_ours()) take_folder();
  if (metrics_are_there()) return false;
  if (is_there(file("metrics.jsonl"))) {
    continue_metrics();
    return false;
  }
  metrics_bytes_ = 0;
  open_metrics();
  return true;
}

// Editors and programs that rotate logs write another file and give it the name.
void RunDirectory::continue_metrics() {
  require_plain_run_files(path_);
  constexpr int kFlags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd file(::open(this->file("metrics.jsonl").c_str(), kFlags));
  struct stat status {};
  const bool plain = file.valid() && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
  require(plain, "cannot write '{}': {}", this->file("metrics.jsonl"), std::strerror(errno));
  metrics_ = std::move(file);
  metrics_bytes_ = status.st_size;
}

}  // namespace tessera

#include "train/directory/run_claim.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>

#include "checkpoint/store/store_names.h"
#include "train/directory/run_directory.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int kMostNumbers = 100'000;

// A run of the same name before this one keeps its directory.
std::string numbered(const std::string& name, int number) {
  return number == 1 ? "runs/" + name : fmt::format("runs/{}-{}", name, number);
}

// Empty: any number of the name will do.
std::string asked_for(const RunDirectoryRequest& request) {
  return request.path.empty() && (request.overwrite || request.resume) ? numbered(request.name, 1)
                                                                       : request.path;
}

// Saves of another run, or one of them: what this run writes beside them would be taken for theirs.
bool is_among_checkpoints(const fs::path& path) {
  std::error_code failure;
  if (fs::exists(path / kCommitFile, failure)) return true;
  if (fs::exists(path / "resolved.json", failure)) return false;  // checkpoint.dir may be its own
  for (const fs::directory_entry& entry : fs::directory_iterator(path, failure)) {
    if (step_of_folder(entry.path().filename().string())) return true;
  }
  return false;
}

void require_usable(const RunDirectoryRequest& request, const std::string& path) {
  std::error_code missing;
  const fs::path whole = fs::absolute(path, missing).lexically_normal();
  require_config(whole != whole.root_path(),
                 "the run directory '{}' is the root of all files: set logging.run_dir to a folder "
                 "of its own, such as runs/{}",
                 path, request.name.empty() ? "run" : request.name);
  require_config(!is_among_checkpoints(path),
                 "the run directory '{}' holds checkpoints of another run: set another "
                 "logging.run_dir",
                 path);
  require_config(
      request.weights_from.empty() || !fs::equivalent(path, request.weights_from, missing),
      "the run directory '{}' is model.hf, which the run starts from: set another "
      "logging.run_dir",
      path);
  require_plain_run_files(path);
  if (request.overwrite || request.resume) return;
  const std::string found = run_file_in(path);
  require_config(found.empty(),
                 "the run directory '{}' holds a run ({}): --overwrite moves it to '{}', or set "
                 "another logging.run_dir",
                 path, found, place_for_former_run(path));
}

void require_writable(const std::string& path) {
  fs::path at(path);
  std::error_code failure;
  while (!at.empty() && !fs::exists(at, failure) && !failure) at = at.parent_path();
  const std::string there = at.empty() ? "." : at.string();
  const bool writable = ::access(there.c_str(), W_OK | X_OK) == 0;
  const int error = fs::is_directory(there, failure) ? errno : ENOTDIR;
  require_config(writable && fs::is_directory(there, failure),
                 "cannot write in the run directory '{}': '{}': {}; set logging.run_dir", path,
                 there, std::strerror(error));
}

// The first number whose directory `take` accepts.
void try_numbers(const RunDirectoryRequest& request,
                 const std::function<bool(const std::string& path)>& take) {
  for (int number = 1; number <= kMostNumbers; ++number) {
    const std::string path = numbered(request.name, number);
    if (!run_file_in(path).empty()) continue;
    if (take(path)) return;
  }
  throw ConfigError(fmt::format("runs/{} to {} all hold runs: set logging.run_dir", request.name,
                                numbered(request.name, kMostNumbers)));
}

}  // namespace

std::string run_name_of(const std::string& run_file) {
  const fs::path path(run_file);
  std::string name = path.stem().string();
  if (name == "resolved" || name == "config") {
    const std::string folder = path.parent_path().filename().string();
    if (!folder.empty() && folder != "." && folder != "..") name = folder;
  }
  return name.empty() || name == "." || name == ".." ? "run" : name;
}

ClaimedDirectory::ClaimedDirectory(std::string path) : path_(std::move(path)) {
  std::error_code failure;
  for (fs::path at(path_); !at.empty() && !fs::exists(at, failure); at = at.parent_path()) {
    if (at.has_filename()) made_.insert(made_.begin(), at.string());
  }
  fs::create_directories(path_, failure);
  require_config(!failure, "cannot create the run directory '{}': {}; set logging.run_dir", path_,
                 failure.message());
  lock_.emplace(RunLock::take(path_));
}

ClaimedDirectory::~ClaimedDirectory() {
  lock_.reset();
  // Innermost first; a folder that holds something stays, with those around it.
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) ::rmdir(folder->c_str());
}

ClaimedDirectory claim_run_directory(const RunDirectoryRequest& request) {
  if (const std::string path = asked_for(request); !path.empty()) {
    ClaimedDirectory claimed(path);
    require_usable(request, claimed.path());
    return claimed;
  }
  std::optional<ClaimedDirectory> claimed;
  try_numbers(request, [&](const std::string& path) {
    try {
      claimed.emplace(path);
    } catch (const RunDirectoryInUse&) {
      return false;
    }
    // A run that held the lock a moment ago may have ended well.
    if (!run_file_in(path).empty()) {
      claimed.reset();
      return false;
    }
    require_usable(request, path);
    return true;
  });
  return std::move(*claimed);
}

std::string find_run_directory(const RunDirectoryRequest& request) {
  std::string found = asked_for(request);
  if (found.empty()) {
    try_numbers(request, [&](const std::string& path) {
      found = path;
      return !user_of_run_directory(path).has_value();
    });
  } else if (const auto user = user_of_run_directory(found)) {
    throw RunDirectoryInUse(
        fmt::format("the run directory '{}' is in use by {}: wait for its end, or set "
                    "logging.run_dir",
                    found, *user));
  }
  require_writable(found);
  require_usable(request, found);
  return found;
}

}  // namespace tessera

#include "train/directory/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/text/text.h"
#include "launch/rendezvous/host_identity.h"

namespace tessera {
namespace {

constexpr size_t kMostBytes = 4096;  // of a lock file

std::string lock_path(const std::string& folder) { return folder + "/run.lock"; }

struct User {
  int64_t pid = 0;
  uint64_t started = 0;
  std::string host, boot, pid_namespace;
};

// Nothing: the file does not say who wrote it, or is being written.
std::optional<User> read_user(int descriptor) {
  std::array<char, kMostBytes> bytes{};
  const ssize_t got = ::pread(descriptor, bytes.data(), bytes.size(), 0);
  if (got <= 0) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(bytes.data(), bytes.data() + got);
    return User{json.at("pid"), json.at("started"), json.at("host"), json.at("boot"),
                json.at("pid_namespace")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string describe(const std::optional<User>& user) {
  if (!user) return "another process";
  return fmt::format("pid {} on host {}", user->pid, in_quotes(user->host));
}

// Only a process that this one could see can be known to be gone.
bool is_gone(const std::optional<User>& user) {
  if (!user) return false;
  const HostIdentity host = this_host();
  if (user->boot != host.boot || user->pid_namespace != host.pid_namespace) return false;
  const std::optional<uint64_t> started = start_time_of(static_cast<pid_t>(user->pid));
  return started != user->started;
}

[[noreturn]] void fail_in_use(const std::string& path, const std::string& user,
                              const std::string& hint) {
  const std::string folder = path.substr(0, path.rfind('/'));
  throw RunDirectoryInUse(
      fmt::format("the run directory '{}' is in use by {}: wait for its end, or set "
                  "logging.run_dir{}",
                  folder, user, hint));
}

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  throw ConfigError(fmt::format("cannot write in the run directory '{}': {}; set logging.run_dir",
                                path.substr(0, path.rfind('/')), std::strerror(error)));
}

struct Opened {
  UniqueFd file;
  bool created = false;
};

Opened open_lock(const std::string& path) {
  // Not blocking: a named pipe opens only when somebody reads it.
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Opened opened;
  opened.file = UniqueFd(::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0666));
  opened.created = opened.file.valid();
  if (!opened.created && errno == EEXIST) opened.file = UniqueFd(::open(path.c_str(), kFlags));
  if (!opened.file.valid() && errno == ENOENT) return {};  // removed in between
  if (!opened.file.valid() && errno != ELOOP) fail_to_write(path, errno);
  struct stat status {};
  const bool plain =
      opened.file.valid() && ::fstat(opened.file.get(), &status) == 0 && S_ISREG(status.st_mode);
  require_config(plain, "'{}' is not a plain file: remove it, or set logging.run_dir", path);
  return opened;
}

bool is_still_there(const std::string& path, int descriptor) {
  struct stat named {
  }, open{};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(descriptor, &open) == 0 &&
         named.st_ino == open.st_ino && named.st_dev == open.st_dev;
}

// Whether the file is ours, where the file alone must do as a lock.
bool take_by_name(const std::string& path, const Opened& opened) {
  if (opened.created) return true;
  const std::optional<User> user = read_user(opened.file.get());
  if (!is_gone(user)) {
    fail_in_use(path, describe(user), fmt::format("; if that run is gone, remove '{}'", path));
  }
  if (is_still_there(path, opened.file.get())) ::unlink(path.c_str());
  return false;
}

}  // namespace

RunLock RunLock::take(const std::string& folder) { return take(folder, ::flock); }

RunLock RunLock::take(const std::string& folder, const Flock& lock) {
  constexpr int kAttempts = 100;
  constexpr int kPatience = 5;  // with one that only looks, or has not yet written who it is
  const std::string path = lock_path(folder);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Opened opened = open_lock(path);
    if (!opened.file.valid()) continue;
    const int file = opened.file.get();
    bool ours = true;
    if (lock(file, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK && attempt < kPatience) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      if (errno == EWOULDBLOCK) fail_in_use(path, describe(read_user(file)), "");
      ours = take_by_name(path, opened);
    }
    // Another run may have removed the file at its end, after it was opened here.
    if (!ours || !is_still_there(path, file)) continue;
    RunLock held(path, std::move(opened.file));
    held.say_who();
    return held;
  }
  fail_in_use(path, "other runs that start and end", "");
}

RunLock::~RunLock() {
  if (file_.valid() && is_still_there(path_, file_.get())) ::unlink(path_.c_str());
}

void RunLock::say_who() const {
  const HostIdentity host = this_host();
  const pid_t pid = ::getpid();
  const nlohmann::ordered_json user = {{"pid", pid},
                                       {"host", host.name},
                                       {"started", start_time_of(pid).value_or(0)},
                                       {"boot", host.boot},
                                       {"pid_namespace", host.pid_namespace}};
  const std::string text =
      user.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const bool written =
      ::ftruncate(file_.get(), 0) == 0 &&
      ::pwrite(file_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (!written) fail_to_write(path_, errno);
}

std::optional<std::string> user_of_run_directory(const std::string& folder) {
  const UniqueFd file(
      ::open(lock_path(folder).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid() || ::flock(file.get(), LOCK_SH | LOCK_NB) == 0) return std::nullopt;
  const bool locked = errno == EWOULDBLOCK;
  const std::optional<User> user = read_user(file.get());
  if (!locked && is_gone(user)) return std::nullopt;
  return describe(user);
}

}  // namespace tessera

#include "launch/rendezvous/meeting_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/text/text.h"
#include "launch/rendezvous/socket.h"
#include "launch/rendezvous/token.h"
#include "launch/unique_fd.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kFirstLine = "tessera-rendezvous 1\n";
constexpr std::string_view kLastLine = "end\n";
constexpr size_t kMaxFileBytes = 64 * 1024;
constexpr milliseconds kWriteTime{2'000};  // for another rank 0 to finish what it is writing
constexpr milliseconds kProbeTime{1'000};
constexpr int kAttempts = 5;

template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size();
}

bool same_processes(const HostIdentity& a, const HostIdentity& b) {
  return a.boot == b.boot && a.pid_namespace == b.pid_namespace;
}

// Ours, or the beginning of ours.
bool looks_like_ours(std::string_view text) {
  return kFirstLine.starts_with(text.substr(0, kFirstLine.size()));
}

// What is at `path`, complete if it is being written right now; none when it is gone.
std::optional<std::string> settled_text(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  require_config(S_ISREG(status.st_mode),
                 "'{}' exists and is no rendezvous file: choose another path", path);
  const auto deadline = Clock::now() + kWriteTime;
  while (true) {
    const bool readable = ::access(path.c_str(), R_OK) == 0 || errno == ENOENT;
    require_config(readable, "cannot read the rendezvous file '{}': {}: choose another path", path,
                   std::strerror(errno));
    std::string text = read_meeting_file(path);
    const bool unfinished = looks_like_ours(text) && !text.ends_with(kLastLine);
    if (!unfinished || Clock::now() >= deadline) return text;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

enum class Answer { kSomebody, kNobody, kSilence };

// Rank 0 listens for as long as its file means anything.
Answer ask(const MeetingNote& note) {
  Answer answer = Answer::kNobody;
  for (const std::string& address : note.addresses) {
    const auto deadline = Clock::now() + kProbeTime;
    try {
      connect_to(address, note.port, deadline);
      return Answer::kSomebody;
    } catch (const Error&) {
      if (Clock::now() >= deadline) answer = Answer::kSilence;
    }
  }
  return answer;
}

void require_dead(const std::string& path, const std::string& text) {
  require_config(looks_like_ours(text),
                 "'{}' exists and is no rendezvous file: choose another path", path);
  const std::optional<MeetingNote> note = parse_meeting_note(text);
  if (!note) return;  // whoever wrote it did not come to the end
  const HostIdentity here = this_host();
  if (surely_dead(*note, here)) return;
  if (same_processes(note->host, here)) {
    throw ConfigError(fmt::format(
        "the rendezvous file '{}' belongs to a run that is waiting for its ranks (rank 0 is pid {} "
        "on this host): choose another path, or end that run",
        path, note->pid));
  }
  const Answer answer = ask(*note);
  require_config(answer != Answer::kSomebody,
                 "the rendezvous file '{}' belongs to a run that is waiting for its ranks (rank 0 "
                 "is pid {} on host {}): choose another path, or end that run",
                 path, note->pid, note->host.name);
  require_config(
      answer != Answer::kSilence,
      "the rendezvous file '{}' was written by pid {} on host {}, which does not answer: "
      "remove the file if that run is dead, or choose another path",
      path, note->pid, note->host.name);
}

// Takes away what was judged dead, and nothing else.
void remove_leftover(const std::string& path, const std::string& text) {
  const std::string aside = fmt::format("{}.stale-{}", path, random_token());
  if (::rename(path.c_str(), aside.c_str()) != 0) return;
  // Somebody replaced the file in the meantime: back with it. (The link fails where yet another has
  // taken its place; then that one counts.)
  if (read_meeting_file(aside) != text) {
    [[maybe_unused]] const int linked = ::link(aside.c_str(), path.c_str());
  }
  ::unlink(aside.c_str());
}

bool create(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid() && errno == EEXIST) return false;
  require_config(fd.valid(), "cannot create the rendezvous file '{}': {}", path,
                 std::strerror(errno));
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return true;
  const int failure = written < 0 ? errno : ENOSPC;
  ::unlink(path.c_str());
  throw Error(
      fmt::format("cannot write the rendezvous file '{}': {}", path, std::strerror(failure)));
}

}  // namespace

std::string to_text(const MeetingNote& note) {
  std::string text(kFirstLine);
  for (const std::string& address : note.addresses) text += fmt::format("address {}\n", address);
  text += fmt::format("port {}\ntoken {}\nhost {}\nboot {}\n", note.port, note.token,
                      note.host.name, note.host.boot);
  text += fmt::format("pid_namespace {}\nnet_namespace {}\npid {}\nstarted {}\n",
                      note.host.pid_namespace, note.host.net_namespace, note.pid, note.started);
  return text + std::string(kLastLine);
}

std::optional<MeetingNote> parse_meeting_note(std::string_view text) {
  if (!text.starts_with(kFirstLine) || !text.ends_with(kLastLine)) return std::nullopt;
  MeetingNote note;
  std::map<std::string_view, std::string_view> values;
  for (const std::string_view line : split(text, '\n')) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const std::string_view value = line.substr(space + 1);
    if (line.starts_with("address ")) note.addresses.emplace_back(value);
    values[line.substr(0, space)] = value;
  }
  note.token = values["token"];
  note.host = {.name = std::string(values["host"]),
               .boot = std::string(values["boot"]),
               .pid_namespace = std::string(values["pid_namespace"]),
               .net_namespace = std::string(values["net_namespace"])};
  const bool complete = read_number(values["port"], note.port) &&
                        read_number(values["pid"], note.pid) &&
                        read_number(values["started"], note.started);
  return complete ? std::optional(note) : std::nullopt;
}

bool surely_dead(const MeetingNote& note, const HostIdentity& here) {
  return same_processes(note.host, here) && start_time_of(note.pid) != note.started;
}

std::string read_meeting_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

MeetingFile::MeetingFile(std::string path, const MeetingNote& note)
    : path_(std::move(path)), text_(to_text(note)) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (create(path_, text_)) return;
    const std::optional<std::string> leftover = settled_text(path_);
    if (!leftover) continue;
    require_dead(path_, *leftover);
    remove_leftover(path_, *leftover);
  }
  throw ConfigError(
      fmt::format("other runs keep writing the rendezvous file '{}': choose another path", path_));
}

MeetingFile::~MeetingFile() {
  if (read_meeting_file(path_) == text_) ::unlink(path_.c_str());
}

}  // namespace tessera

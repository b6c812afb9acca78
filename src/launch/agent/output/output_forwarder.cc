#include "launch/agent/output/output_forwarder.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAskEvery{50};  // whether to stop

// A log that cannot grow does not stop the run.
void write_copy(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

}  // namespace

UniqueFd OutputForwarder::open_pipe(const std::string& prefix, Target target, int copy) {
  int ends[2];
  const bool opened = ::pipe2(ends, O_CLOEXEC) == 0;
  require(opened,
          "cannot open a pipe for the output of a rank: {}: raise the limit with 'ulimit -n', or "
          "start fewer ranks",
          std::strerror(errno));
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  // Only the end read here must not block; the child's is an ordinary pipe.
  TESSERA_CHECK(::fcntl(read_end.get(), F_SETFL, O_NONBLOCK) == 0, "fcntl: {}",
                std::strerror(errno));
  sources_.push_back({.fd = std::move(read_end),
                      .lines = LinePrefixer(prefix),
                      .sink = target == Target::kOut ? &out_ : &err_,
                      .copy = copy});
  return write_end;
}

void OutputForwarder::add_to(PollSet& set) {
  for (Source& source : sources_) {
    const bool wanted = source.fd.valid() && source.sink->has_room();
    source.slot = wanted ? set.add(source.fd.get(), POLLIN) : PollSet::kNone;
  }
  out_.add_to(set);
  err_.add_to(set);
}

void OutputForwarder::forward(const PollSet& set) {
  out_.write_ready(set);
  err_.write_ready(set);
  for (Source& source : sources_) {
    if (set.ready(source.slot)) read_once(source);
  }
}

bool OutputForwarder::read_once(Source& source) {
  std::array<char, 16 * 1024> bytes;
  const ssize_t got = ::read(source.fd.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got > 0) {
    if (source.copy >= 0) write_copy(source.copy, {bytes.data(), static_cast<size_t>(got)});
    source.lines.feed({bytes.data(), static_cast<size_t>(got)}, source.sink->queue());
    return true;
  }
  source.lines.finish(source.sink->queue());
  source.fd.reset();
  return false;
}

void OutputForwarder::finish(milliseconds time, const std::function<bool()>& stop) {
  const auto deadline = Clock::now() + time;
  while (!read_all() && Clock::now() < deadline && !stop()) write_all(deadline, stop);
  for (Source& source : sources_) source.lines.finish(source.sink->queue());
  write_all(deadline, stop);
  sources_.clear();
}

void OutputForwarder::say(const std::string& text, milliseconds time) {
  err_.queue().append(text).push_back('\n');
  write_all(Clock::now() + time, [] { return false; });
}

// A process that a child left behind may hold its pipe open for ever, so what is there now counts.
bool OutputForwarder::read_all() {
  for (Source& source : sources_) {
    while (source.fd.valid() && source.sink->has_room() && read_once(source)) {
    }
    if (source.fd.valid() && !source.sink->has_room()) return false;
  }
  return true;
}

void OutputForwarder::write_all(Clock::time_point deadline, const std::function<bool()>& stop) {
  while ((!out_.empty() || !err_.empty()) && Clock::now() < deadline && !stop()) {
    PollSet set;
    out_.add_to(set);
    err_.add_to(set);
    set.wait(std::min(kAskEvery, std::chrono::ceil<milliseconds>(deadline - Clock::now())));
    out_.write_ready(set);
    err_.write_ready(set);
  }
}

}  // namespace tessera

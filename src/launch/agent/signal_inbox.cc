#include "launch/agent/signal_inbox.h"

#include <sys/signalfd.h>

#include <cerrno>

#include "launch/stop_signals.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAskEvery{20};
constexpr milliseconds kLongSleep{60'000};

int take_one(const sigset_t& set, milliseconds time) {
  const timespec bound{.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
  int signal = 0;
  do {
    signal = ::sigtimedwait(&set, nullptr, &bound);
  } while (signal < 0 && errno == EINTR);
  return signal;
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

SignalInbox::SignalInbox() {
  sigemptyset(&awaited_);
  for (const int signal : kStopSignals) {
    if (!may_stay_ignored(signal) || !is_ignored(signal)) sigaddset(&awaited_, signal);
  }
  blocked_ = awaited_;
  sigaddset(&blocked_, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &blocked_, &previous_mask_);
  wake_ = UniqueFd(::signalfd(-1, &awaited_, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalInbox::~SignalInbox() {
  while (take_one(blocked_, {}) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

void SignalInbox::add_to(PollSet& set) const {
  if (wake_.valid()) set.add(wake_.get(), POLLIN);
}

milliseconds SignalInbox::longest_sleep() const { return wake_.valid() ? kLongSleep : kAskEvery; }

std::optional<int> SignalInbox::take(milliseconds time) {
  const int signal = take_one(awaited_, time);
  return signal > 0 ? std::optional<int>(signal) : std::nullopt;
}

}  // namespace tessera

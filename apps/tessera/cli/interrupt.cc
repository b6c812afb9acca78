#include "cli/interrupt.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string_view>

#include "launch/stop_signals.h"
#include "launch/stop_time.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kNoGrace = -1;
// Two signals closer than this are one: `timeout` and schedulers signal both process and group.
constexpr int64_t kSameSignalUs = 150'000;
// An end that comes sooner needs no announcement.
constexpr milliseconds kWorthSaying{500};

// A signal handler takes no context, so these are the variables it can reach.
std::atomic<int> received{0};
std::atomic<int64_t> received_at_us{0};
std::atomic<int64_t> grace_ms{kNoGrace};
std::atomic<bool> speaks{false};
std::atomic<bool> on_terminal{false};
std::atomic<int64_t> steps_done{0};
std::atomic<int64_t> longest_step_us{0};
std::atomic<int64_t> weight_bytes{0};
std::atomic<bool> saving{false};
std::atomic<int64_t> saving_us{0};
std::atomic<int64_t> saved_step{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

RunState reported() {
  return {.steps_done = steps_done.load(),
          .longest_step_us = longest_step_us.load(),
          .weight_bytes = weight_bytes.load(),
          .saving = saving.load(),
          .saving_us = saving_us.load(),
          .saved_step = saved_step.load()};
}

// A line put together without memory from the heap, as a signal handler must.
class SafeLine {
 public:
  SafeLine& operator<<(std::string_view text) {
    const size_t length = std::min(text.size(), bytes_.size() - used_);
    std::memcpy(bytes_.data() + used_, text.data(), length);
    used_ += length;
    return *this;
  }
  SafeLine& operator<<(int64_t number) {
    char* const begin = bytes_.data() + used_;
    used_ += static_cast<size_t>(std::to_chars(begin, bytes_.data() + bytes_.size(), number).ptr -
                                 begin);
    return *this;
  }
  void say() const {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, bytes_.data(), used_);
  }

 private:
  std::array<char, 256> bytes_{};
  size_t used_ = 0;
};

std::string_view name_of_stop(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    case SIGPIPE:
      return "SIGPIPE";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGUSR2:
      return "SIGUSR2";
    case SIGXCPU:
      return "SIGXCPU";
    default:
      return "^C";
  }
}

int64_t now_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

int64_t patience_us() {
  return std::chrono::microseconds(stop_time(reported(), milliseconds(grace_ms.load()))).count();
}

void set_alarm(int64_t microseconds) {
  itimerval timer{};
  timer.it_value.tv_sec = microseconds / 1'000'000;
  timer.it_value.tv_usec = microseconds % 1'000'000;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

// On a terminal the line of progress is still open.
std::string_view line_start() { return on_terminal.load() ? "\n" : ""; }

void announce_end() {
  const RunState state = reported();
  const milliseconds time = expected_stop_time(state);
  if (state.steps_done == 0 || time < kWorthSaying) return;
  SafeLine line;
  line << line_start() << "tessera: ";
  if (state.saving) {
    line << "writing the weights of step " << state.steps_done;
  } else {
    line << "finishing step " << state.steps_done + 1;
  }
  line << ", about " << (time.count() + 999) / 1000 << " s; ^C again ends at once\n";
  line.say();
}

void say_loss(std::string_view why) {
  const RunState state = reported();
  SafeLine line;
  line << line_start() << "tessera: stopped by " << name_of_stop(received.load()) << "; " << why
       << ": ";
  if (state.saved_step > 0) {
    line << "the weights of step " << state.saved_step << " are saved\n";
  } else {
    line << "no weights were saved, " << state.steps_done << " steps are lost\n";
  }
  line.say();
}

void ask(int number) {
  received.store(number);
  received_at_us.store(now_us());
  if (grace_ms.load() != kNoGrace) set_alarm(std::max<int64_t>(1, patience_us()));
  if (speaks.load()) announce_end();
}

extern "C" void on_interrupt(int number) {
  const int before = received.load();
  if (number == SIGPIPE) {
    if (before == 0) received.store(number);
  } else if (before == 0 || before == SIGPIPE) {
    ask(number);
  } else if (!repeats_itself(number) && now_us() - received_at_us.load() >= kSameSignalUs) {
    if (speaks.load()) say_loss("a second signal ended it at once");
    std::signal(number, SIG_DFL);
    std::raise(number);  // comes when this handler returns
  }
}

extern "C" void on_alarm(int) {
  const int64_t left = received_at_us.load() + patience_us() - now_us();
  if (left > 0) return set_alarm(left);  // by now the weights are being written
  if (speaks.load()) say_loss("the step at hand did not end in time");
  _exit(kSignalCode + received.load());
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  if (sigaction(number, nullptr, &action) != 0) return;
  // nohup and shells say by this that a signal is not meant for the program.
  if (may_stay_ignored(number) && action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

void forget(int number) {
  struct sigaction action {};
  if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == on_interrupt) {
    std::signal(number, SIG_DFL);
  }
}

}  // namespace

InterruptGuard::InterruptGuard(InterruptOptions options) {
  received.store(0);
  grace_ms.store(options.grace ? options.grace->count() : kNoGrace);
  speaks.store(options.speaks);
  on_terminal.store(isatty(STDERR_FILENO) == 1);
  report({});
  handle(SIGALRM, on_alarm);
  for (const int number : kStopSignals) {
    if (number != SIGINT || options.takes_sigint) handle(number, on_interrupt);
  }
  if (options.takes_sigpipe) handle(SIGPIPE, on_interrupt);
}

InterruptGuard::~InterruptGuard() {
  for (const int number : kStopSignals) forget(number);
  forget(SIGPIPE);
  set_alarm(0);
  std::signal(SIGALRM, SIG_DFL);
}

int InterruptGuard::signal() const { return received.load(); }

void InterruptGuard::report(const RunState& state) {
  steps_done.store(state.steps_done);
  longest_step_us.store(state.longest_step_us);
  weight_bytes.store(state.weight_bytes);
  saving.store(state.saving);
  saving_us.store(state.saving_us);
  saved_step.store(state.saved_step);
}

std::string describe_stop(int signal) { return std::string(name_of_stop(signal)); }

}  // namespace tessera

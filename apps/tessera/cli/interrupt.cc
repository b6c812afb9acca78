#include "cli/interrupt.h"

#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

namespace tessera {
namespace {

// A signal handler takes no context, so these are the variables it can reach.
std::atomic<int> received{0};
std::atomic<int64_t> grace_us{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

void set_alarm(int64_t microseconds) {
  itimerval timer{};
  timer.it_value.tv_sec = microseconds / 1'000'000;
  timer.it_value.tv_usec = microseconds % 1'000'000;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

extern "C" void on_interrupt(int number) {
  received.store(number);
  if (grace_us.load() > 0) set_alarm(grace_us.load());
}

extern "C" void on_alarm(int) { _exit(kSignalCode + received.load()); }

constexpr int kSignals[] = {SIGINT, SIGTERM};

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  // After the first signal the default comes back: the second ^C ends the process at once.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(number, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard(std::chrono::milliseconds grace) {
  received.store(0);
  grace_us.store(std::chrono::microseconds(grace).count());
  handle(SIGALRM, on_alarm);
  for (const int number : kSignals) handle(number, on_interrupt);
}

InterruptGuard::~InterruptGuard() {
  for (const int number : kSignals) std::signal(number, SIG_DFL);
  set_alarm(0);
  std::signal(SIGALRM, SIG_DFL);
}

int InterruptGuard::signal() const { return received.load(); }

std::string describe_stop(int signal) { return signal == SIGTERM ? "SIGTERM" : "^C"; }

}  // namespace tessera

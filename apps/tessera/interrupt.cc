#include "interrupt.h"

#include <atomic>
#include <csignal>

namespace tessera {
namespace {

// A signal handler takes no context, so this is the one variable it can reach.
std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_interrupt(int number) { received.store(number); }

constexpr int kSignals[] = {SIGINT, SIGTERM};

}  // namespace

InterruptGuard::InterruptGuard() {
  received.store(0);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  // After the first signal the default comes back: the second ^C ends the process at once.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int number : kSignals) sigaction(number, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  for (const int number : kSignals) std::signal(number, SIG_DFL);
}

int InterruptGuard::signal() const { return received.load(); }

std::string describe_stop(int signal) { return signal == SIGTERM ? "SIGTERM" : "^C"; }

}  // namespace tessera

#include "interrupt.h"

#include <atomic>
#include <csignal>

namespace tessera {
namespace {

// A signal handler takes no context, so this is the one variable it can reach.
std::atomic<bool> pressed{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_interrupt(int) { pressed.store(true); }

}  // namespace

InterruptGuard::InterruptGuard() {
  pressed.store(false);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  // After the first signal the default comes back: the second ^C ends the process at once.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
}

InterruptGuard::~InterruptGuard() { std::signal(SIGINT, SIG_DFL); }

bool InterruptGuard::interrupted() const { return pressed.load(); }

}  // namespace tessera

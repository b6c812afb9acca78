#include "comm/shm/stack_answers.h"

#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"

namespace tessera {
namespace {

// The frames of this function, and of what the system calls it by.
constexpr int kOwnFrames = 2;

// A handler of signals has no argument of its own.
std::atomic<shared::StackBlock*> asked_of{nullptr};

void on_question(int /*signal*/) {
  const int error = errno;
  if (shared::StackBlock* const block = asked_of.load()) {
    const uint32_t place = block->used.fetch_add(1);
    if (place < shared::kStackThreads) {
      shared::ThreadStack& mine = block->threads[place];
      std::array<void*, shared::kStackFrames + kOwnFrames> frames{};
      const int depth = ::backtrace(frames.data(), static_cast<int>(frames.size()));
      for (int i = kOwnFrames; i < depth; ++i) {
        mine.frames[i - kOwnFrames] = reinterpret_cast<uintptr_t>(frames[static_cast<size_t>(i)]);
      }
      mine.depth = depth > kOwnFrames ? depth - kOwnFrames : 0;
      mine.tid.store(static_cast<int32_t>(::syscall(SYS_gettid)), std::memory_order_release);
    }
  }
  errno = error;
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  TESSERA_CHECK(::sigaction(kStackSignal, &action, nullptr) == 0, "sigaction({})", kStackSignal);
}

}  // namespace

StackAnswers::StackAnswers(shared::StackBlock& block) {
  // The first call loads what unwinds, which a handler must not.
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), 1);
  TESSERA_CHECK(asked_of.exchange(&block) == nullptr, "two answers in one process");
  handle(on_question);
}

StackAnswers::~StackAnswers() {
  handle(SIG_DFL);
  asked_of.store(nullptr);
}

}  // namespace tessera

#include "comm/mpi/bounded_thread.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"

namespace tessera {

struct BoundedThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> call;  // set while one waits or runs
  std::exception_ptr error;
  bool ending = false;
  std::thread thread;
};

namespace {

// Shares the state with its owner, who may be gone before it ends.
template <typename State>
void serve(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->call != nullptr || state->ending; });
    if (state->call == nullptr) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      state->call();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    state->error = error;
    state->call = nullptr;
    state->changed.notify_all();
  }
}

}  // namespace

BoundedThread::BoundedThread() : state_(std::make_shared<State>()) {
  state_->thread = std::thread([state = state_] { serve(state); });
}

BoundedThread::~BoundedThread() {
  bool busy = false;
  {
    const std::scoped_lock lock(state_->mutex);
    state_->ending = true;
    busy = state_->call != nullptr;
    state_->changed.notify_all();
  }
  if (busy) {
    state_->thread.detach();
  } else {
    state_->thread.join();
  }
}

bool BoundedThread::run(std::function<void()> call, std::chrono::milliseconds time) {
  std::unique_lock lock(state_->mutex);
  TESSERA_CHECK(state_->call == nullptr, "a call is still running");
  state_->call = std::move(call);
  state_->changed.notify_all();
  if (!state_->changed.wait_for(lock, time, [&] { return state_->call == nullptr; })) return false;
  if (state_->error) std::rethrow_exception(std::exchange(state_->error, nullptr));
  return true;
}

}  // namespace tessera

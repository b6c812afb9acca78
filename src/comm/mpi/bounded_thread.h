// One thread for calls that may block for ever, so that whoever needs their result can stop
// waiting. All calls run on the same thread, as MPI wants of its first and last.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace tessera {

class BoundedThread {
 public:
  BoundedThread();
  // Joins the thread, unless a call is still in it: that one is left behind with its thread.
  ~BoundedThread();
  BoundedThread(const BoundedThread&) = delete;
  BoundedThread& operator=(const BoundedThread&) = delete;

  // Runs `call` and rethrows what it throws. False when it has not ended in `time`; what it refers
  // to must live on then, and nothing may be run after it.
  [[nodiscard]] bool run(std::function<void()> call, std::chrono::milliseconds time);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera

// A thread that looks after something at short intervals, while there is anything to look after.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera::nccl {

class Watcher {
 public:
  // `look` is called with `mutex` held, which must outlive the watcher, and says whether it wants
  // to be called again soon; else it is not called before the next wake(). It must not throw.
  Watcher(std::mutex& mutex, std::function<bool()> look);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // With the mutex held.
  void wake();

 private:
  void run();

  std::mutex& mutex_;
  std::function<bool()> look_;
  std::condition_variable changed_;
  bool awake_ = false;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tessera::nccl

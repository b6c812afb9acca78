#include "comm/nccl/watcher.h"

#include <chrono>
#include <utility>

namespace tessera::nccl {
namespace {

// A look takes microseconds; what it finds is late by this at most.
constexpr std::chrono::milliseconds kBetweenLooks{2};

}  // namespace

Watcher::Watcher(std::mutex& mutex, std::function<bool()> look)
    : mutex_(mutex), look_(std::move(look)), thread_([this] { run(); }) {}

Watcher::~Watcher() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void Watcher::wake() {
  awake_ = true;
  changed_.notify_one();
}

void Watcher::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    awake_ = awake_ && look_();
    if (awake_) {
      changed_.wait_for(lock, kBetweenLooks, [&] { return ends_; });
    } else {
      changed_.wait(lock, [&] { return ends_ || awake_; });
    }
  }
}

}  // namespace tessera::nccl

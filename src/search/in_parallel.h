// The threads of a search: results go to places of their own, so who worked on what shows nowhere.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera {

// Runs body(index, thread) for all indices below `count`, on `threads` threads, the calling one
// among them. Rethrows the first exception.
template <typename Body>
void in_parallel(size_t count, int threads, const Body& body) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&](size_t thread) {
    try {
      for (size_t i = next++; i < count; i = next++) body(i, thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, static_cast<size_t>(t));
  work(0);
  for (std::thread& other : others) other.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace tessera

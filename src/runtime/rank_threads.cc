#include "runtime/rank_threads.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera {

void run_rank_threads(LocalWorld& world, const std::function<void(int rank)>& f) {
  std::exception_ptr first;
  std::exception_ptr released;  // from a wait: often only the echo of a failure elsewhere
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        f(rank);
      } catch (const CommError& e) {
        const std::scoped_lock lock(mutex);
        if (released == nullptr) released = std::current_exception();
        world.abort(fmt::format("rank {}: {}", rank, e.what()));
      } catch (const std::exception& e) {
        const std::scoped_lock lock(mutex);
        if (first == nullptr) first = std::current_exception();
        world.abort(fmt::format("rank {}: {}", rank, e.what()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
  if (released != nullptr) std::rethrow_exception(released);
}

}  // namespace tessera

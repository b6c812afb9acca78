#include "runtime/world.h"

#include <exception>
#include <mutex>
#include <thread>

namespace tessera {

World::World(StepGraph step, WorldOptions options) : World(step, compile_ranks(step), options) {}

World::World(StepGraph step, std::vector<Program> programs, WorldOptions options)
    : step_(std::move(step)),
      programs_(std::move(programs)),
      options_(options),
      local_({static_cast<int>(programs_.size()), options.comm_timeout}),
      executors_(programs_.size()) {}

World::~World() = default;

void World::run(const std::function<void(int rank, Executor& executor)>& f) {
  std::exception_ptr first;
  std::exception_ptr released;  // from a wait: often only the echo of a failure elsewhere
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        std::unique_ptr<Executor>& executor = executors_[static_cast<size_t>(rank)];
        if (executor == nullptr) {
          executor = std::make_unique<Executor>(step_, programs_[static_cast<size_t>(rank)],
                                                local_.endpoint(rank), options_.executor);
        }
        f(rank, *executor);
      } catch (const CommError& e) {
        const std::scoped_lock lock(mutex);
        if (released == nullptr) released = std::current_exception();
        local_.abort(fmt::format("rank {} failed: {}", rank, e.what()));
      } catch (const std::exception& e) {
        const std::scoped_lock lock(mutex);
        if (first == nullptr) first = std::current_exception();
        local_.abort(fmt::format("rank {} failed: {}", rank, e.what()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
  if (released != nullptr) std::rethrow_exception(released);
}

}  // namespace tessera

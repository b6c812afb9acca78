// All ranks of a mesh as threads of this process, each with its executor.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/local/local_world.h"
#include "runtime/executor.h"
#include "runtime/rank.h"

namespace tessera {

struct WorldOptions {
  std::chrono::milliseconds comm_timeout{60'000};     // longest wait for a peer
  std::chrono::milliseconds stream_timeout{120'000};  // longest wait for a stream of the same rank
};

// Arenas take all their pages when they are made. Throws Error with ExitCode::kDoesNotFit where the
// ranks of these programs need more than is free on this host; `train` asks before it starts.
void require_room_on_host(std::span<const Program> programs);

class World {
 public:
  // Compiles every rank's Program; executors are created inside the first run(), on their threads.
  // Throws as require_room_on_host() where the memory is this host's.
  explicit World(StepGraph step, WorldOptions options = {});
  // Programs given: tests change them first.
  World(StepGraph step, std::vector<Program> programs, WorldOptions options = {});
  ~World();

  [[nodiscard]] int size() const { return static_cast<int>(programs_.size()); }
  [[nodiscard]] const StepGraph& step() const { return step_; }
  [[nodiscard]] const Program& program(int rank) const {
    return programs_[static_cast<size_t>(rank)];
  }
  [[nodiscard]] Executor& executor(int rank) { return *executors_[static_cast<size_t>(rank)]; }

  // Runs f once per rank, at once, each on its own thread. When a rank throws, the others are
  // released from their waits; the error of the rank that failed first is rethrown.
  void run(const std::function<void(int rank, Executor& executor)>& f);

 private:
  void create_executor(int rank);

  StepGraph step_;
  std::vector<Program> programs_;
  WorldOptions options_;
  RankOptions rank_options_;
  LocalWorld local_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace tessera

// Snapshots of a run in memory that outlives its ranks (snapshot_memory.h): when one is taken, how
// all ranks find the newest that they have in common, and how they go on from it. Each host keeps
// what its ranks have copied; what a rank needs of another host's comes over their connections.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "train/save/checkpoint_save.h"
#include "train/state/snapshot_memory.h"
#include "train/state/staging.h"

namespace tessera {

struct FoundSnapshot {
  SnapshotName name;
  std::string note;  // that rank 0 left with it
};

class Snapshots {
 public:
  // Does what a fault wants at a point; whether it wants a bit flipped.
  using Failpoint = std::function<bool(const char* point, int64_t step)>;

  // `file`: in memory. `spec` says what the snapshots are of. All must outlive it.
  struct Kept {
    int fd = -1;
    int generation = 1;     // of the ranks
    int ranks_on_host = 0;  // that have this file, and follow each other; 0: all
  };
  Snapshots(Kept file, const RunSpec& spec, const StepGraph& step, Executor& executor,
            Communicator& control, Failpoint failpoint);

  [[nodiscard]] const std::shared_ptr<const CheckpointPlan>& plan() const { return plan_; }
  // For write_shard(), of the copies.
  [[nodiscard]] const std::shared_ptr<Staging>& staging() const { return staging_; }
  // Memory of this rank, all of it.
  [[nodiscard]] int64_t bytes() const { return memory_->bytes() + staging_->bytes(); }
  [[nodiscard]] int64_t taken() const { return taken_; }

  // All ranks: the newest that all of them have and that is whole. On rank 0 `note` is told what is
  // there and cannot be used.
  std::optional<FoundSnapshot> find(const std::function<void(const std::string&)>& note);
  // All ranks: weights and states as they were. What was found stays until a newer one is whole.
  void load(const FoundSnapshot& found);

  // All ranks, between steps. Copies, and returns the place of the copy, which is sealed beside the
  // steps. Not the place `busy`, if there is one, which is being written to a disk. `note` counts
  // on rank 0.
  size_t take(int64_t step, const std::string& note, std::optional<size_t> busy);

 private:
  // Where a box of a tensor lies in the copy of a rank.
  struct Stored {
    size_t rank;
    const StagingLayout::Chunk* chunk;
  };

  void settle();
  [[nodiscard]] std::map<std::string_view, std::vector<Stored>> stored_chunks() const;
  // With several hosts all ranks, once: what another host keeps is sent.
  void read(const FoundSnapshot& found, std::span<const WantedBox> wanted,
            const std::map<std::string_view, std::vector<Stored>>& stored) const;
  [[nodiscard]] bool is_here(size_t rank) const;
  [[nodiscard]] bool on_one_host() const;

  const StepGraph& step_;
  Executor& executor_;
  Communicator& control_;
  Failpoint failpoint_;
  uint64_t generation_;
  int ranks_on_host_;
  std::shared_ptr<const CheckpointPlan> plan_;
  std::vector<StagingLayout> layouts_;  // by rank
  std::shared_ptr<SnapshotMemory> memory_;
  std::shared_ptr<Staging> staging_;
  std::future<void> sealing_;
  size_t newest_ = 1;  // place that was filled last
  int64_t taken_ = 0;
};

}  // namespace tessera

// One rank of a world, whatever it runs: its device, its memory, its groups. Programs run on it one
// at a time (runtime/executor.h) and share what they keep; it outlives them.
#pragma once

#include <memory>

#include "comm/world.h"
#include "runtime/channels.h"
#include "runtime/device/options.h"
#include "runtime/device/rank_device.h"
#include "runtime/rank_memory.h"
#include "tensor/workers.h"

namespace tessera {

class Rank {
 public:
  // `world` must outlive it. Throws Error where there is no such GPU.
  Rank(CommWorld& world, const RankOptions& options);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] CommWorld& world() { return world_; }
  [[nodiscard]] int threads() const { return workers_.size(); }  // that compute
  [[nodiscard]] RankDevice& device() { return *device_; }
  [[nodiscard]] RankMemory& memory() { return memory_; }
  [[nodiscard]] Channels& channels() { return channels_; }
  [[nodiscard]] const Channels& channels() const { return channels_; }

 private:
  CommWorld& world_;
  Workers workers_;
  std::unique_ptr<RankDevice> device_;
  RankMemory memory_;
  Channels channels_;
};

}  // namespace tessera

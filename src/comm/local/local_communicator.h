// One rank's end of a LocalGroup: moves the data of each collective straight between the buffers of
// the ranks. Who touches what between enter and leave, for rank r:
//   all_reduce      reads and stores slice r of every rank's data
//   reduce_scatter  reads place r of every rank's full, stores its own shard
//   all_gather      reads every rank's shard, stores its own full except place r if the shard is it
//   broadcast       reads the root's data, stores its own
// No two ranks touch the same bytes unless both read.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/local/local_group.h"

namespace tessera {

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank);

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return group_->size(); }
  [[nodiscard]] const std::string& name() const override { return group_->name(); }

  [[nodiscard]] std::span<const int> members() const override { return group_->members(); }
  [[nodiscard]] std::chrono::milliseconds timeout() const override { return group_->timeout(); }

  Work start(const CollectiveCall& call) override {
    run(call);
    return {};
  }
  void run(const CollectiveCall& call) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name) override;
  [[nodiscard]] std::vector<Arrival> arrivals() const override { return {}; }
  [[nodiscard]] TrafficCounters counters() const override { return group_->counters(rank_); }

 private:
  void all_reduce(void* data, int64_t count, DType dtype, uint32_t tag);
  void all_gather(const void* shard, void* full, int64_t count, DType dtype, uint32_t tag);
  void reduce_scatter(const void* full, void* shard, int64_t count, DType dtype, uint32_t tag);
  void broadcast(void* data, int64_t count, DType dtype, int root, uint32_t tag);
  void barrier(uint32_t tag);
  void enter(const Fingerprint& fingerprint, const void* in, void* out);
  void check_place(CollectiveOp op, const void* shard, const void* full, int64_t shard_bytes) const;
  // Sums `count` elements from byte `offset` of every rank's input into `targets`.
  void sum_inputs(int64_t offset, std::span<void* const> targets, int64_t count, DType dtype);
  void copy_from(int peer, void* to, int64_t size_bytes);

  std::shared_ptr<LocalGroup> group_;
  int rank_;
  std::vector<const void*> sources_;  // scratch of one collective, by rank
  std::vector<void*> targets_;
};

}  // namespace tessera

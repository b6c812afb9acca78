// How the algorithm files write schedules: the steps of one rank, round by round.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "collective/schedule.h"
#include "collective/slices.h"

namespace tessera {

namespace place {
constexpr StepPlace in(int64_t begin = 0) { return {StepBuffer::kIn, begin}; }
constexpr StepPlace out(int64_t begin = 0) { return {StepBuffer::kOut, begin}; }
}  // namespace place

class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(const ScheduleRequest& request);

  [[nodiscard]] const ScheduleRequest& request() const { return request_; }
  [[nodiscard]] int ranks() const { return request_.ranks; }
  [[nodiscard]] int rank() const { return request_.rank; }
  [[nodiscard]] int root() const { return request_.root; }
  [[nodiscard]] bool is_root() const { return rank() == root(); }
  [[nodiscard]] int64_t count() const { return request_.count; }
  // The rank `distance` after this one, around the ring; may be negative.
  [[nodiscard]] int neighbour(int distance) const { return wrap(rank() + distance); }
  [[nodiscard]] int wrap(int rank) const { return ((rank % ranks()) + ranks()) % ranks(); }

  StepPlace scratch(int64_t count);  // not used for anything else

  // All of these do nothing for 0 elements.
  void send(int peer, StepPlace from, int64_t count);
  void receive(int peer, StepPlace to, int64_t count);
  void copy(StepPlace from, StepPlace to, int64_t count);
  void add(std::span<const StepPlace> operands, StepPlace to, int64_t count);  // more will follow
  void complete(std::span<const StepPlace> operands, StepPlace to, int64_t count);
  // Messages without data.
  void signal(int peer);
  void await(int peer);

  // What comes next needs what came before. Every rank calls this equally often.
  void next_round() { ++round_; }

  CollectiveSchedule finish() { return std::move(schedule_); }

 private:
  void message(StepAction action, int peer, StepPlace place, int64_t count);
  void reduce(std::span<const StepPlace> operands, StepPlace to, int64_t count, bool complete);

  ScheduleRequest request_;
  CollectiveSchedule schedule_;
  int round_ = 0;
};

// How an array is cut into one block per rank: by count (gathered and scattered shards) or into
// the slices of an all_reduce.
class BlockLayout {
 public:
  static BlockLayout shards(int64_t count, int ranks) { return {count, 0, ranks}; }
  static BlockLayout slices(const ScheduleRequest& request) {
    return {request.count, request.element_bytes, request.ranks};
  }
  [[nodiscard]] SliceRange block(int rank) const {
    if (element_bytes_ == 0) return {rank * count_, (rank + 1) * count_};
    return all_reduce_slice(count_, element_bytes_, rank, ranks_);
  }
  // Blocks first … first + num - 1, around the end: at most two ranges (the second may be empty).
  struct Ranges {
    SliceRange first;
    SliceRange second;
  };
  [[nodiscard]] Ranges blocks(int first, int num) const;

 private:
  BlockLayout(int64_t count, int64_t element_bytes, int ranks)
      : count_(count), element_bytes_(element_bytes), ranks_(ranks) {}
  int64_t count_;
  int64_t element_bytes_;  // 0: shards
  int ranks_;
};

// Rounds that halve or double: the smallest number with 2^rounds >= ranks.
constexpr int log2_rounds(int ranks) {
  int rounds = 0;
  while ((1 << rounds) < ranks) ++rounds;
  return rounds;
}

}  // namespace tessera

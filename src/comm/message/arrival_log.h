// How late the ranks of a group are, seen from one of them. Lateness is kept by powers of two, so
// that the log is small and never grows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace tessera::message {

class ArrivalLog {
 public:
  explicit ArrivalLog(int ranks) : ranks_(static_cast<size_t>(ranks)) {}

  // When each rank came into a call; kUnknown for those not heard of.
  static constexpr int64_t kUnknown = INT64_MIN;
  void record(std::span<const int64_t> arrived_at_us);

  // Percentiles are upper ends of their power of two.
  [[nodiscard]] std::vector<Arrival> summary(std::span<const int> world_ranks) const;

 private:
  struct Rank {
    int64_t times_last = 0;
    std::array<int64_t, 64> by_log2_us{};
  };
  std::vector<Rank> ranks_;
};

}  // namespace tessera::message

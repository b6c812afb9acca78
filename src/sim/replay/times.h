// How long instructions take: what the replay of Programs asks, and nothing else of a machine.
#pragma once

#include <vector>

#include "compile/program/program.h"

namespace tessera {

// A collective or a message, alone on its links.
struct TransferTime {
  double latency_s = 0;  // before the first byte; takes no room on a link
  double wire_s = 0;     // shares the links it crosses with whatever else crosses them
  int level = 0;         // of those links, 0 the innermost
  // The share of its ranks' kernels' speed that is lost while it is on the wire; the largest
  // counts.
  double kernel_share = 0;
};

class Times {
 public:
  virtual ~Times() = default;

  [[nodiscard]] virtual double kernel_s(const Program& program,
                                        const Instruction& instruction) const = 0;
  // `ranks` are those that take part, ascending; of a message the sender's instruction.
  [[nodiscard]] virtual TransferTime transfer(const Program& program,
                                              const Instruction& instruction,
                                              const std::vector<int>& ranks) const = 0;

  [[nodiscard]] virtual int num_levels() const = 0;
  // Ranks with the same number share one link at that level.
  [[nodiscard]] virtual int link_of(int rank, int /*level*/) const { return rank; }

  // Whether all ranks compute on the same few cores. Then kernels and transfers take the longer the
  // more threads are at work, of whatever rank: so many times as long as with one.
  [[nodiscard]] virtual bool shares_cores() const { return false; }
  [[nodiscard]] virtual double core_slowdown(const Instruction& /*instruction*/,
                                             int /*threads*/) const {
    return 1;
  }
};

}  // namespace tessera

// Times from the cost model: kernels by the shape of their operands on a cluster's device,
// transfers by the links that a group crosses. Groups of one axis talk at once, which the cost
// model counts; what the replay adds is that different transfers of one rank share its links.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cost/hardware/cluster.h"
#include "sim/replay/contention.h"
#include "sim/replay/times.h"

namespace tessera {

class ClusterTimes : public Times {
 public:
  // Throws ConfigError where the cluster's device has no rate for products of `type`.
  ClusterTimes(Cluster cluster, const EngineNumbers& engine, DType type, Contention contention);

  [[nodiscard]] double kernel_s(const Program& program,
                                const Instruction& instruction) const override;
  [[nodiscard]] TransferTime transfer(const Program& program, const Instruction& instruction,
                                      const std::vector<int>& ranks) const override;
  [[nodiscard]] int num_levels() const override;
  [[nodiscard]] int link_of(int rank, int level) const override;

 private:
  [[nodiscard]] double fresh_kernel_s(const Program& program, const Instruction& instruction) const;

  Cluster cluster_;           // whose buses are switches: the replay shares them
  std::vector<bool> is_bus_;  // by level
  EngineNumbers engine_;
  Contention contention_;
  MathType math_ = MathType::kF16;
  // By what decides it: micro-batches and layers repeat the same kernels.
  mutable std::map<uint64_t, double> known_;
};

}  // namespace tessera

#include "compile/lower/step_graph.h"

#include <algorithm>

#include "spec/run_file/validate.h"

namespace tessera {

bool StepGraph::keeps_full_gradients() const {
  const bool accumulates = accumulation(spec) > 1;
  const bool sums_over_ranks = mesh.size(layout.shard_axes.with(layout.replica_axes)) > 1;
  const bool each_micro_batch =
      accumulates && spec.parallel.grad_reduce == GradReduce::kMicroBatch && sums_over_ranks;
  if (each_micro_batch) return false;
  return spec.parallel.zero <= 1 || layout.shards == 1 || accumulates;
}

bool StepGraph::gradients_are_activations(int rank) const {
  const std::vector<int>& rank_of_stage = stages.schedule.rank_of_stage;
  const auto mine = static_cast<int>(mesh.coord(rank, Axis::kPp));
  return training && accumulation(spec) == 1 && !stages.schedule.asynchronous &&
         std::count(rank_of_stage.begin(), rank_of_stage.end(), mine) == 1;
}

bool StepGraph::gathers_weights_per_use() const {
  return spec.parallel.zero == 3 && layout.shards > 1;
}

}  // namespace tessera

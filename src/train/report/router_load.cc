#include "train/report/router_load.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tessera {

RouterLoad take_router_load(Executor& executor, Communicator& control) {
  const BufferId id = executor.program().router_load;
  if (id == kNoBuffer) return {};
  RouterLoad load;
  executor.edit(id, [&](const Tensor& counts) {
    if (control.size() > 1) control.all_reduce(counts.data, counts.numel(), counts.dtype);
    for (int64_t layer = 0; layer < counts.dim(0); ++layer) {
      const double* row = counts.as<double>() + layer * counts.dim(1);
      load.emplace_back(row, row + counts.dim(1));
    }
    std::memset(counts.data, 0, static_cast<size_t>(counts.bytes()));
  });
  return load;
}

nlohmann::ordered_json to_json(const RouterLoad& load) {
  double worst = 0;
  for (const std::vector<double>& layer : load) {
    const double sum = std::accumulate(layer.begin(), layer.end(), 0.0);
    const double most = *std::max_element(layer.begin(), layer.end());
    worst = std::max(worst, most * static_cast<double>(layer.size()) / std::max(1.0, sum));
  }
  return {{"load", load}, {"max_over_mean", worst}};
}

}  // namespace tessera

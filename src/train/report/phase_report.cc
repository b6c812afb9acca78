#include "train/report/phase_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera {

nlohmann::ordered_json phase_ms(const PhaseTimes& before, const PhaseTimes& now, int64_t steps) {
  const double to_ms = 1e3 / static_cast<double>(std::max<int64_t>(1, steps));
  const auto passes = [&](std::initializer_list<Pass> wanted) {
    double seconds = 0;
    for (const Pass pass : wanted) {
      const auto i = static_cast<size_t>(pass);
      seconds += now.passes[i] - before.passes[i];
    }
    return seconds * to_ms;
  };
  nlohmann::ordered_json json = {{"forward", passes({Pass::kForward})},
                                 {"backward", passes({Pass::kInputGrad, Pass::kWeightGrad})},
                                 {"update", passes({Pass::kReduce, Pass::kUpdate})},
                                 {"comm_exposed", (now.exposed - before.exposed) * to_ms},
                                 {"data", (now.data - before.data) * to_ms}};
  const double recompute = passes({Pass::kRecompute});
  if (recompute > 0) json["recompute"] = recompute;
  return json;
}

nlohmann::ordered_json memory_of_ranks(const std::vector<int64_t>& bytes) {
  constexpr size_t kMostListed = 64;
  if (bytes.size() <= kMostListed) return bytes;
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  return {{"ranks", bytes.size()}, {"least", *least}, {"most", *most}};
}

}  // namespace tessera

#include "train/verify/float8_losses.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/float8.h"
#include "base/text/text.h"
#include "tensor/element.h"

namespace tessera {
namespace {

Float8Losses losses_of(const Tensor& x, const Tensor& amax, const Tensor& codes,
                       const Scaling& scaling) {
  const int64_t cols = x.dim(1), across = scaling.col_tiles(cols);
  const Float8Values& values = values_of(scaling.format);
  const double largest = values[shape_of(scaling.format).largest];
  Float8Losses losses;
  losses.values = x.numel();
  for (int64_t i = 0; i < losses.values; ++i) {
    const int64_t tile = (scaling.rows == 0 ? 0 : i / cols / scaling.rows) * across +
                         (scaling.cols == 0 ? 0 : i % cols / scaling.cols);
    const double scale = scale_of(scaling.format, amax.as<float>()[tile]);
    const double size = std::abs(read_element(x, i));
    if (size > largest * scale) ++losses.clipped;
    if (size > 0 && values[codes.as<uint8_t>()[i]] == 0) ++losses.zeroed;
  }
  return losses;
}

}  // namespace

void Float8LossMeter::watch(Executor& executor, int64_t step) {
  executor.set_probe([this, step, &executor](size_t, const Instruction& instruction) {
    if (instruction.op != OpKind::kQuantise) return;
    const auto tensor = [&](BufferId id) { return executor.view(id).tensor; };
    const Float8Losses mine =
        losses_of(tensor(instruction.inputs[0]), tensor(instruction.inputs[1]),
                  tensor(instruction.outputs[0]), instruction.args.scaling[0]);
    const std::scoped_lock lock(mutex_);
    Float8Losses& all = losses_[instruction.name];
    all.values += mine.values;
    all.clipped += mine.clipped;
    all.zeroed += mine.zeroed;
    if (mine.clipped > 0 && all.first_clipped == 0) all.first_clipped = step;
  });
}

std::string Float8LossMeter::text() const {
  constexpr size_t kShown = 3;
  std::vector<std::pair<std::string, Float8Losses>> most(losses_.begin(), losses_.end());
  std::stable_sort(most.begin(), most.end(), [](const auto& a, const auto& b) {
    return a.second.share_zeroed() > b.second.share_zeroed();
  });
  std::string text;
  for (const auto& [name, losses] : losses_) {
    if (losses.clipped == 0) continue;
    text += fmt::format("clipped: {} of '{}', first at step {}\n",
                        count_of(losses.clipped, "value"), name, losses.first_clipped);
  }
  if (text.empty()) text = "clipped: nothing\n";
  for (size_t i = 0; i < std::min(kShown, most.size()); ++i) {
    text += fmt::format("became zero: {:.3f} % of '{}'\n", 100 * most[i].second.share_zeroed(),
                        most[i].first);
  }
  return text;
}

nlohmann::ordered_json Float8LossMeter::json() const {
  auto tensors = nlohmann::ordered_json::array();
  for (const auto& [name, losses] : losses_) {
    tensors.push_back({{"name", name},
                       {"values", losses.values},
                       {"clipped", losses.clipped},
                       {"first_clipped_step", losses.first_clipped},
                       {"zeroed", losses.zeroed}});
  }
  return tensors;
}

}  // namespace tessera

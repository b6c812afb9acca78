#include "cost/formulas/bubbles.h"

#include <algorithm>

#include "compile/pipeline/schedule/schedule.h"

namespace tessera {
namespace {

Bubble bubble_of(double idle, double busy, std::string formula) {
  const double all = idle + busy;
  return {idle, busy, all > 0 ? idle / all : 0, std::move(formula)};
}

}  // namespace

std::optional<Bubble> closed_form_bubble(const BubbleShape& shape) {
  const auto p = static_cast<double>(shape.ranks);
  const auto m = static_cast<double>(shape.micro_batches);
  const auto v = static_cast<double>(shape.virtual_stages);
  const BubbleTimes& t = shape.times;
  const double busy = m * t.total();
  const PipelineKind kind = shape.schedule;
  if (kind == PipelineKind::kNaive) return bubble_of((p - 1) * busy, busy, "(P-1) / P");
  if (kind == PipelineKind::kGPipe || kind == PipelineKind::k1F1B) {
    return bubble_of((p - 1) * t.total(), busy, "(P-1) / (M + P-1)");
  }
  if (kind == PipelineKind::kInterleaved && shape.micro_batches % shape.ranks == 0) {
    return bubble_of((p - 1) * t.total() / v, busy, "(P-1) / (v M + P-1)");
  }
  // With other times the lists of passes would be others too.
  const bool equal = t.forward == t.input_grad && t.forward == t.weight_grad;
  if (kind == PipelineKind::kZbH1 && equal && shape.micro_batches >= shape.ranks) {
    const double idle = (p - 1) * (t.forward + t.input_grad - t.weight_grad);
    return bubble_of(idle, busy, "(P-1)(F+B-W) / (M (F+B+W) + (P-1)(F+B-W))");
  }
  if (kind == PipelineKind::kZbH2 && equal && shape.micro_batches >= 2 * shape.ranks - 1) {
    // Nobody waits between the first and the last pass; what is left is that ranks begin in turn.
    return bubble_of((p - 1) * t.forward, busy, "(P-1) F / (M (F+B+W) + (P-1) F)");
  }
  return std::nullopt;
}

// (P-1) / (M + P-1) < x, that is M > (P-1)(1-x)/x.
ScheduleFacts play(const BubbleShape& shape) {
  const PipelineSchedule schedule =
      make_schedule(shape.schedule, static_cast<int>(shape.ranks),
                    static_cast<int>(shape.virtual_stages), static_cast<int>(shape.micro_batches));
  const auto v = static_cast<double>(shape.virtual_stages);
  PassCosts costs;
  costs.forward = shape.times.forward / v;
  costs.input_grad = shape.times.input_grad / v;
  costs.weight_grad = shape.times.weight_grad / v;
  return facts_of(replay(schedule, costs));
}

double fewest_micro_batches(double ranks, double share) {
  const auto idles_less = [&](double m) { return ranks - 1 < share * (m + ranks - 1); };
  const double bound = (ranks - 1) * (1 - share) / share;
  if (bound >= 0x1p53) return bound;
  // Division rounds: the neighbours decide.
  auto m = static_cast<double>(std::max<int64_t>(1, static_cast<int64_t>(bound) - 1));
  while (!idles_less(m)) m += 1;
  return m;
}

int64_t one_f_one_b_in_flight(int64_t ranks, int64_t micro_batches, int64_t stage) {
  return std::min(micro_batches, ranks - stage);
}

}  // namespace tessera

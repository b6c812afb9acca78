#include "plan/report/misfit_text.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/text/text.h"

namespace tessera {
namespace {

// In the heaviest rank's place in the pipeline, as the table counts it: classes may differ in what
// they count for the gradient's norm, and need the same.
int64_t ranks_like(const Plan& plan, const PlannedClass& one) {
  int64_t ranks = 0;
  for (const PlannedClass& other : plan.classes) {
    const bool alike =
        other.pipeline_rank == one.pipeline_rank && other.total_bytes() == one.total_bytes();
    if (alike) ranks += other.ranks;
  }
  return ranks;
}

// Such ranks do not get more memory by being more.
bool share_a_machine(const Plan& plan) {
  return !plan.limit_of.empty() && plan.spec.train.device != TrainDevice::kCuda;
}

std::string enough_devices(const Plan& plan) {
  const int64_t devices = plan.advice->devices;
  if (!share_a_machine(plan)) return count_of(devices, "device");
  return fmt::format("{} on {}", count_of(devices, "rank"),
                     count_of(devices / plan.mesh.world(), "such machine"));
}

std::string nothing_fits_text(const Plan& plan, const FlagsOf& flags) {
  const FitAdvice& advice = *plan.advice;
  std::string text = "; no change of up to three settings makes it fit on these devices";
  if (advice.nearest) {
    const FitChange& nearest = *advice.nearest;
    text += fmt::format("; the nearest that was planned:\n  {}: {}, {} too much", flags(nearest),
                        human_bytes(nearest.peak_bytes),
                        human_bytes(nearest.peak_bytes - plan.limit_bytes));
  }
  if (!advice.on_devices) {
    return text + fmt::format("\nuse more {}, or a smaller model or sequence",
                              share_a_machine(plan) ? "machines" : "devices");
  }
  return text + fmt::format("\n{} would do, with\n  {}: {} of {}", enough_devices(plan),
                            flags(*advice.on_devices), human_bytes(advice.on_devices->peak_bytes),
                            human_bytes(plan.limit_bytes));
}

}  // namespace

std::string short_seconds(double value) {
  if (value >= 1) return fmt::format("{:.3f} s", value);
  if (value >= 1e-3) return fmt::format("{:.3f} ms", value * 1e3);
  return fmt::format("{:.1f} us", value * 1e6);
}

std::string misfit_sentence(const Plan& plan) {
  const PlannedClass& worst = plan.heaviest();
  const auto part = static_cast<size_t>(std::max_element(worst.memory.begin(), worst.memory.end()) -
                                        worst.memory.begin());
  const int64_t ranks = ranks_like(plan, worst);
  return fmt::format(
      "does not fit: rank {} ({}{}) needs {} but has {}{}, {} too much; the largest part is {} "
      "with {}",
      worst.first_rank, plan.mesh.describe(worst.first_rank),
      ranks > 1 ? fmt::format("; {} ranks need as much", with_thousands(ranks)) : "",
      human_bytes(worst.total_bytes()), human_bytes(plan.limit_bytes),
      plan.limit_of.empty() ? "" : fmt::format(" ({})", plan.limit_of),
      human_bytes(worst.total_bytes() - plan.limit_bytes), name_of(kAllArenas[part]),
      human_bytes(worst.memory[part]));
}

std::string set_flags(const FitChange& change) {
  return fmt::format("--set {}", fmt::join(change.settings, " --set "));
}

std::string misfit_text(const Plan& plan, const FlagsOf& flags) {
  std::string text = misfit_sentence(plan);
  if (!plan.advice) return text;
  const FitAdvice& advice = *plan.advice;
  if (advice.changes.empty()) return text + nothing_fits_text(plan, flags);
  text += "; the cheapest changes that make it fit";
  if (!advice.assumed_cluster.empty()) {
    text += fmt::format(" (steps as on {}, since no cluster is named)", advice.assumed_cluster);
  }
  text += ":";
  for (const FitChange& change : advice.changes) {
    text += fmt::format("\n  {}: {} of {}, step {} instead of {}", flags(change),
                        human_bytes(change.peak_bytes), human_bytes(plan.limit_bytes),
                        short_seconds(change.step_s), short_seconds(advice.step_s));
  }
  return text;
}

}  // namespace tessera

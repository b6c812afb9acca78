#include "plan/report/plan_why.h"

#include <algorithm>
#include <numeric>

#include "base/text/text.h"
#include "plan/report/links.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

constexpr double kWorthSaying = 0.005;  // of the step

size_t heaviest_part(const ArenaBytes& memory) {
  return static_cast<size_t>(std::max_element(memory.begin(), memory.end()) - memory.begin());
}

std::string in_flight_text(const PlannedClass& one) {
  const int most = std::accumulate(one.in_flight.begin(), one.in_flight.end(), 0,
                                   [](int sum, const auto& stage) { return sum + stage.second; });
  return most > 1 ? fmt::format(", with {} micro-batches in flight", most) : "";
}

PlanReason memory_reason(const Plan& plan) {
  const PlannedClass& one = plan.heaviest();
  const size_t part = heaviest_part(one.memory);
  const int64_t total = one.total_bytes();
  return {
      "memory",
      fmt::format("the fullest ranks are those of pipeline rank {}: {} of {}; {} take "
                  "most of it, {} ({}){}",
                  one.pipeline_rank, human_bytes(total), human_bytes(plan.limit_bytes),
                  name_of(kAllArenas[part]), human_bytes(one.memory[part]),
                  percent_text(static_cast<double>(one.memory[part]), static_cast<double>(total)),
                  in_flight_text(one))};
}

PlanReason fit_reason(const Plan& plan) {
  const int64_t left = plan.limit_bytes - plan.peak_bytes();
  return {"fit", left >= 0 ? fmt::format("it fits: {} of a rank are left", human_bytes(left))
                           : fmt::format("it does not fit: a rank lacks {}", human_bytes(-left))};
}

PlanReason kernel_reason(const StepTime& time) {
  return {"kernels", fmt::format("kernels of the busiest stage take {} of the step",
                                 percent_text(time.compute_s, time.step_s))};
}

PlanReason bubble_reason(const Plan& plan, const StepTime& time) {
  const int64_t micro_batches = accumulation(plan.spec);
  return {
      "bubble",
      fmt::format("ranks wait {} of the step for the pipeline: {} stages and {}; more of them in "
                  "a step make it a smaller part",
                  percent_text(time.bubble_s, time.step_s), plan.schedule.stages,
                  count_of(micro_batches, "micro-batch"))};
}

PlanReason exposed_reason(const PlannedStep& step, size_t axis) {
  const StepTime& time = step.estimate.time;
  const AxisTraffic& traffic = step.estimate.traffic[axis];
  const std::string_view name = name_of(static_cast<CommAxis>(axis));
  const double hidden_s = std::max(0.0, traffic.busy_s - time.exposed_s[axis]);
  return {
      fmt::format("exposed {}", name),
      fmt::format("communication over {} holds the step up for {} of it, over {}; {} of it hides "
                  "behind kernels",
                  name, percent_text(time.exposed_s[axis], time.step_s),
                  link_name(step.cluster, traffic.level), percent_text(hidden_s, traffic.busy_s))};
}

void add_times(const Plan& plan, std::vector<PlanReason>& reasons) {
  const PlannedStep& step = *plan.step;
  const StepTime& time = step.estimate.time;
  if (time.step_s <= 0) return;
  struct Part {
    double seconds;
    PlanReason reason;
  };
  std::vector<Part> parts = {{time.compute_s, kernel_reason(time)}};
  if (time.bubble_s > kWorthSaying * time.step_s) {
    parts.push_back({time.bubble_s, bubble_reason(plan, time)});
  }
  for (size_t axis = 0; axis < time.exposed_s.size(); ++axis) {
    if (time.exposed_s[axis] <= kWorthSaying * time.step_s) continue;
    parts.push_back({time.exposed_s[axis], exposed_reason(step, axis)});
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.seconds > b.seconds; });
  for (Part& part : parts) reasons.push_back(std::move(part.reason));
}

}  // namespace

std::vector<PlanReason> reasons_of(const Plan& plan) {
  std::vector<PlanReason> reasons = {fit_reason(plan), memory_reason(plan)};
  if (plan.step) add_times(plan, reasons);
  return reasons;
}

}  // namespace tessera

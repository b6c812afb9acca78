#include "published/bubble.h"

#include <algorithm>
#include <array>

#include "compile/pipeline/schedule/replay.h"

namespace tessera {
namespace {

// Qi et al. 2024 (arXiv 2401.10241), the profiled times of the appendix.
struct Profile {
  std::string_view model;
  int ranks, micro_batches;
  ProfiledTimes times;
};
constexpr std::array kProfiles = {
    Profile{"1.5B", 8, 24, {24, 18.522, 18.086, 9.337, 0.601}},
    Profile{"1.5B", 8, 32, {24, 18.513, 18.086, 9.331, 0.626}},
    Profile{"1.5B", 8, 64, {24, 18.546, 18.097, 9.321, 0.762}},
    Profile{"6.2B", 8, 24, {32, 29.718, 29.444, 19.927, 0.527}},
    Profile{"6.2B", 8, 32, {32, 29.802, 29.428, 19.530, 0.577}},
    Profile{"6.2B", 8, 64, {32, 29.935, 29.621, 19.388, 0.535}},
    Profile{"14.6B", 16, 48, {48, 11.347, 11.248, 8.132, 0.377}},
    Profile{"14.6B", 16, 64, {48, 11.307, 11.254, 8.101, 0.379}},
    Profile{"14.6B", 16, 128, {48, 11.325, 11.308, 8.109, 0.378}},
    Profile{"28.3B", 32, 96, {64, 10.419, 10.207, 7.715, 0.408}},
    Profile{"28.3B", 32, 128, {64, 10.408, 10.204, 7.703, 0.408}},
    Profile{"28.3B", 32, 256, {64, 10.402, 10.248, 7.698, 0.460}},
};

// The longest time from a rank's first begin to its last end, and the busiest rank's work in it.
double span_bubble(const ScheduleTimeline& timeline) {
  double span = 0, busiest = 0;
  for (const std::vector<TimedAction>& rank : timeline.ranks) {
    double busy = 0;
    for (const TimedAction& action : rank) busy += action.end - action.begin;
    busiest = std::max(busiest, busy);
    span = std::max(span, rank.back().end - rank.front().begin);
  }
  return 1 - busiest / span;
}

}  // namespace

std::optional<ProfiledTimes> profiled_times(const std::string& model, int ranks,
                                            int micro_batches) {
  for (const Profile& profile : kProfiles) {
    if (profile.model == model && profile.ranks == ranks &&
        profile.micro_batches == micro_batches) {
      return profile.times;
    }
  }
  return std::nullopt;
}

std::optional<ProfiledTimes> derived_times(const std::string& model, int ranks, int micro_batches,
                                           double rate_of_1f1b) {
  const auto profile = std::find_if(kProfiles.begin(), kProfiles.end(),
                                    [&](const Profile& p) { return p.model == model; });
  if (profile == kProfiles.end()) return std::nullopt;
  ProfiledTimes times = profile->times;
  // The rate grows with the message: halve the interval in which it must be.
  double least = 0, most = times.forward;
  constexpr int kHalvings = 30;
  for (int i = 0; i < kHalvings; ++i) {
    times.message = (least + most) / 2;
    const bool more = *published_bubble(times, ranks, micro_batches, "1F1B") < rate_of_1f1b;
    (more ? least : most) = times.message;
  }
  return times;
}

std::optional<double> published_bubble(const ProfiledTimes& times, int ranks, int micro_batches,
                                       const std::string& column) {
  struct Column {
    std::string_view name;
    PipelineKind schedule;
  };
  // ZB-1p is what their search finds within the memory of 1F1B: the table has ZB-H1's rates for it.
  constexpr std::array kColumns = {
      Column{"1F1B", PipelineKind::k1F1B},  Column{"1F1B-I", PipelineKind::kInterleaved},
      Column{"ZB-H1", PipelineKind::kZbH1}, Column{"ZB-H2", PipelineKind::kZbH2},
      Column{"ZB-1p", PipelineKind::kZbH1}, Column{"ZB-V", PipelineKind::kZbV}};
  const auto found = std::find_if(kColumns.begin(), kColumns.end(),
                                  [&](const Column& c) { return c.name == column; });
  if (found == kColumns.end()) return std::nullopt;
  int stages_per_rank = 1;
  if (found->schedule == PipelineKind::kZbV) stages_per_rank = 2;
  if (found->schedule == PipelineKind::kInterleaved) {
    stages_per_rank = times.layers / ranks;  // one layer each
    if (stages_per_rank * ranks != times.layers || stages_per_rank < 2) return std::nullopt;
  }
  const PipelineSchedule schedule = make_schedule(
      found->schedule, ranks, found->schedule == PipelineKind::kInterleaved ? stages_per_rank : 0,
      micro_batches);
  PassCosts costs;
  costs.forward = times.forward / stages_per_rank;
  costs.input_grad = times.input_grad / stages_per_rank;
  costs.weight_grad = times.weight_grad / stages_per_rank;
  costs.transfer = times.message;
  return span_bubble(replay(schedule, costs));
}

}  // namespace tessera

#include "cost/published/bubble.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "compile/schedule/replay.h"

namespace tessera {
namespace {

// Milliseconds of a whole stage: Qi et al. 2024 (arXiv 2401.10241), the profiled times of the
// appendix. `layers` is the model's, with the embedding and the head counted as layers.
struct ProfiledTimes {
  std::string_view model;
  int micro_batches;
  int layers;
  double forward, input_grad, weight_grad, message;
};
constexpr std::array kProfiles = {
    ProfiledTimes{"1.5B", 24, 24, 18.522, 18.086, 9.337, 0.601},
    ProfiledTimes{"1.5B", 32, 24, 18.513, 18.086, 9.331, 0.626},
    ProfiledTimes{"1.5B", 64, 24, 18.546, 18.097, 9.321, 0.762},
    ProfiledTimes{"6.2B", 24, 32, 29.718, 29.444, 19.927, 0.527},
    ProfiledTimes{"6.2B", 32, 32, 29.802, 29.428, 19.530, 0.577},
    ProfiledTimes{"6.2B", 64, 32, 29.935, 29.621, 19.388, 0.535},
    ProfiledTimes{"14.6B", 48, 48, 11.347, 11.248, 8.132, 0.377},
    ProfiledTimes{"14.6B", 64, 48, 11.307, 11.254, 8.101, 0.379},
    ProfiledTimes{"14.6B", 128, 48, 11.325, 11.308, 8.109, 0.378},
    ProfiledTimes{"28.3B", 96, 64, 10.419, 10.207, 7.715, 0.408},
    ProfiledTimes{"28.3B", 128, 64, 10.408, 10.204, 7.703, 0.408},
    ProfiledTimes{"28.3B", 256, 64, 10.402, 10.248, 7.698, 0.460},
};

const ProfiledTimes* profile_of(const std::string& model, int micro_batches) {
  const ProfiledTimes* best = nullptr;
  for (const ProfiledTimes& profile : kProfiles) {
    if (profile.model != model) continue;
    const auto distance = [&](const ProfiledTimes& p) {
      return std::abs(p.micro_batches - micro_batches);
    };
    if (best == nullptr || distance(profile) < distance(*best)) best = &profile;
  }
  return best;
}

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

std::optional<double> published_bubble(const std::string& model, int ranks, int micro_batches,
                                       const std::string& column) {
  struct Column {
    std::string_view name, schedule;
  };
  // ZB-1p is what their search finds within the memory of 1F1B: the table has ZB-H1's rates for it.
  constexpr std::array kColumns = {Column{"1F1B", "1f1b"},   Column{"1F1B-I", "interleaved"},
                                   Column{"ZB-H1", "zb-h1"}, Column{"ZB-H2", "zb-h2"},
                                   Column{"ZB-1p", "zb-h1"}, Column{"ZB-V", "zb-v"}};
  const auto* found = std::find_if(kColumns.begin(), kColumns.end(),
                                   [&](const Column& c) { return c.name == column; });
  const ProfiledTimes* profile = profile_of(model, micro_batches);
  if (found == kColumns.end() || profile == nullptr) return std::nullopt;
  int stages_per_rank = 1;
  if (found->schedule == "zb-v") stages_per_rank = 2;
  if (found->schedule == "interleaved") {
    stages_per_rank = profile->layers / ranks;  // one layer each
    if (stages_per_rank * ranks != profile->layers || stages_per_rank < 2) return std::nullopt;
  }
  const PipelineSchedule schedule =
      make_schedule(found->schedule, ranks, found->schedule == "interleaved" ? stages_per_rank : 0,
                    micro_batches);
  PassCosts costs;
  costs.forward = profile->forward / stages_per_rank;
  costs.input_grad = profile->input_grad / stages_per_rank;
  costs.weight_grad = profile->weight_grad / stages_per_rank;
  costs.transfer = profile->message;
  return span_bubble(replay(schedule, costs));
}

}  // namespace tessera

#include "published/bubble.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text/toml.h"
#include "compile/pipeline/schedule/replay.h"
#include "published/words.h"

namespace tessera {
namespace {

struct Profile {
  std::string model;
  int ranks = 0, micro_batches = 0;
  ProfiledTimes times;
};

std::vector<Profile> read_profiles() {
  std::vector<Profile> profiles;
  const toml::table file = toml::parse(published_file("bubbles"));
  for (const toml::node& node : *file["profile"].as_array()) {
    const toml::table& row = *node.as_table();
    const auto whole = [&](const char* key) { return row[key].value<int>().value(); };
    const auto real = [&](const char* key) { return row[key].value<double>().value(); };
    profiles.push_back({row["model"].value<std::string>().value(),
                        whole("ranks"),
                        whole("micro_batches"),
                        {whole("layers"), real("forward"), real("input_grad"), real("weight_grad"),
                         real("message")}});
  }
  return profiles;
}

const std::vector<Profile>& profiles() {
  static const std::vector<Profile> kProfiles = read_profiles();
  return kProfiles;
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

std::optional<ProfiledTimes> profiled_times(const std::string& model, int ranks,
                                            int micro_batches) {
  for (const Profile& profile : profiles()) {
    if (profile.model == model && profile.ranks == ranks &&
        profile.micro_batches == micro_batches) {
      return profile.times;
    }
  }
  return std::nullopt;
}

std::optional<ProfiledTimes> derived_times(const std::string& model, int ranks, int micro_batches,
                                           double rate_of_1f1b) {
  const auto profile = std::find_if(profiles().begin(), profiles().end(),
                                    [&](const Profile& p) { return p.model == model; });
  if (profile == profiles().end()) return std::nullopt;
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

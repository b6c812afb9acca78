#include "compile/pipeline/weight_versions.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

bool ends_micro_batch(StagePass pass) {
  return pass == StagePass::kBackward || pass == StagePass::kWeightGrad;
}

// The actions of one stage, as far as versions go.
struct StageTimes {
  std::vector<int> made_at_forward;  // by micro-batch: updates that the stage had made
  std::vector<int> end;              // by micro-batch: place of its last action
  std::vector<int> update;           // by update, from 0: place after which it is made
};

StageTimes times_of(const PipelineSchedule& schedule, int stage, int group) {
  const auto micro_batches = static_cast<size_t>(schedule.micro_batches);
  StageTimes times;
  times.made_at_forward.assign(micro_batches, 0);
  times.end.assign(micro_batches, 0);
  std::vector<int> left(micro_batches / static_cast<size_t>(group), group);
  const auto rank = static_cast<size_t>(schedule.rank_of_stage[static_cast<size_t>(stage)]);
  int place = 0;
  for (const StageAction& action : schedule.actions[rank]) {
    ++place;
    if (action.stage != stage) continue;
    const auto m = static_cast<size_t>(action.micro_batch);
    if (action.pass == StagePass::kForward) {
      times.made_at_forward[m] = static_cast<int>(times.update.size());
    }
    if (!ends_micro_batch(action.pass)) continue;
    times.end[m] = place;
    if (--left[m / static_cast<size_t>(group)] > 0) continue;
    TESSERA_CHECK(m / static_cast<size_t>(group) == times.update.size(),
                  "schedule {}: stage {} ends its groups of micro-batches out of order",
                  schedule.name, stage);
    times.update.push_back(place);
  }
  return times;
}

// A new version goes over one that nobody will read, the one it is made from if that can be.
void place_versions(const StageTimes& times, StageVersions& versions) {
  std::vector<int> last_read(static_cast<size_t>(versions.updates) + 1, 0);
  for (size_t m = 0; m < times.end.size(); ++m) {
    int& last = last_read[static_cast<size_t>(versions.version_of[m])];
    last = std::max(last, times.end[m]);
  }
  versions.slot_of.assign(last_read.size(), 0);
  std::vector<int> in_slot = {0};
  for (int made = 1; made < versions.updates; ++made) {
    const int now = times.update[static_cast<size_t>(made) - 1];
    const auto is_free = [&](int version) {
      return last_read[static_cast<size_t>(version)] <= now;
    };
    auto slot = std::find(in_slot.begin(), in_slot.end(), made - 1);
    if (!is_free(made - 1)) slot = std::find_if(in_slot.begin(), in_slot.end(), is_free);
    if (slot == in_slot.end()) slot = in_slot.insert(slot, made);
    *slot = made;
    versions.slot_of[static_cast<size_t>(made)] = static_cast<int>(slot - in_slot.begin());
  }
  versions.slots = static_cast<int>(in_slot.size());
}

}  // namespace

std::vector<StageVersions> plan_versions(const PipelineSchedule& schedule, int group,
                                         VersionRule rule) {
  TESSERA_CHECK(group >= 1 && schedule.micro_batches % group == 0,
                "updates of {} micro-batches in a step of {}", group, schedule.micro_batches);
  std::vector<StageVersions> stages;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const StageTimes times = times_of(schedule, stage, group);
    StageVersions versions;
    versions.updates = schedule.micro_batches / group;
    for (int m = 0; m < schedule.micro_batches; ++m) {
      const int newest = times.made_at_forward[static_cast<size_t>(m)];
      const int read = rule == VersionRule::kNewest ? newest : std::max(0, m / group - 1);
      TESSERA_CHECK(read <= newest,
                    "schedule {}: stage {} has made version {} when the forward of micro-batch {} "
                    "reads version {}",
                    schedule.name, stage, newest, m, read);
      versions.update_of.push_back(m / group + 1);
      versions.version_of.push_back(read);
    }
    place_versions(times, versions);
    stages.push_back(std::move(versions));
  }
  return stages;
}

}  // namespace tessera

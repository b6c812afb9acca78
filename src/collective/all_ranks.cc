#include "collective/all_ranks.h"

#include <set>

namespace tessera {

std::vector<CollectiveSchedule> make_schedules(ScheduleRequest request) {
  std::vector<CollectiveSchedule> schedules;
  for (int rank = 0; rank < request.ranks; ++rank) {
    request.rank = rank;
    schedules.push_back(make_schedule(request));
  }
  return schedules;
}

int num_steps(std::span<const CollectiveSchedule> schedules) {
  std::set<int> rounds;
  for (const CollectiveSchedule& schedule : schedules) {
    for (const CollectiveStep& step : schedule.steps) {
      if (step.action == StepAction::kSend) rounds.insert(step.round);
    }
  }
  return static_cast<int>(rounds.size());
}

}  // namespace tessera

#include "api/simulate.h"
#include "base/error.h"
#include "compile/pipeline/schedule/schedule.h"
#include "compile/pipeline/schedule/schedule_csv.h"
#include "draw/schedule_svg.h"
#include "library/surroundings.h"
#include "sim/schedule/timeline.h"

namespace tessera {
namespace {

constexpr const char* kOwnName = "own schedule";

ScheduleCell cell_of(const StageAction& action) {
  return {letter_of(action.pass), action.stage, action.micro_batch};
}

Schedule lists_of(const PipelineSchedule& schedule) {
  Schedule lists{schedule.rank_of_stage, {}};
  for (const std::vector<StageAction>& actions : schedule.actions) {
    std::vector<ScheduleCell>& rank = lists.ranks.emplace_back();
    for (const StageAction& action : actions) rank.push_back(cell_of(action));
  }
  return lists;
}

// Written as a file and read again, so that lists and files are checked alike.
PipelineSchedule checked(const Schedule& lists) {
  std::string csv = "placement";
  for (const int rank : lists.rank_of_stage) csv += fmt::format(",{}", rank);
  csv += '\n';
  for (size_t rank = 0; rank < lists.ranks.size(); ++rank) {
    require_config(!lists.ranks[rank].empty(), "{}: rank {} has no cells", kOwnName, rank);
    for (const ScheduleCell& cell : lists.ranks[rank]) {
      csv += fmt::format("{}{}.{},", cell.pass, cell.stage, cell.micro_batch);
    }
    csv.back() = '\n';
  }
  return schedule_from_csv(csv, kOwnName);
}

}  // namespace

Schedule named_schedule(const std::string& name, int pp, int micro_batches, int virtual_stages) {
  return library::refusing(
      [&] { return lists_of(make_schedule(name, pp, virtual_stages, micro_batches)); });
}

std::string schedule_csv(const Schedule& schedule) {
  return library::refusing([&] { return to_csv(checked(schedule)); });
}

Schedule schedule_of_csv(const std::string& text) {
  return library::refusing([&] { return lists_of(schedule_from_csv(text, kOwnName)); });
}

Json schedule_times(const Schedule& schedule) {
  return library::refusing(
      [&] { return schedule_report_json(simulate_schedule(checked(schedule))); });
}

std::string schedule_picture(const Schedule& schedule) {
  return library::refusing([&] { return schedule_svg(simulate_schedule(checked(schedule))); });
}

}  // namespace tessera

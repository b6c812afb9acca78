#include "spec/run_file/pipeline.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/text.h"

namespace tessera {
namespace {

constexpr ScheduleKind kKinds[] = {
    {"naive"},
    {"gpipe"},
    {"1f1b"},
    {.name = "interleaved", .virtual_stages = 2, .any_virtual_stages = true},
    {"zb-h1"},
    {"zb-h2"},
    {.name = "zb-v", .virtual_stages = 2},
    {.name = "dualpipe-v", .virtual_stages = 2},
    {.name = "pipedream", .asynchronous = true},
    {.name = "pipedream-2bw", .asynchronous = true},
};

}  // namespace

std::span<const ScheduleKind> schedule_kinds() { return kKinds; }

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const ScheduleKind& kind : kKinds) names.push_back(kind.name);
  return names;
}

const ScheduleKind& schedule_kind(std::string_view name) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const ScheduleKind& kind) { return kind.name == name; });
  if (found != std::end(kKinds)) return *found;
  throw ConfigError(fmt::format("unknown schedule {} (the name of a file would end in .csv); {}",
                                in_quotes(name), suggestion(name, schedule_names(), "schedules")));
}

bool names_schedule_file(std::string_view schedule) { return schedule.ends_with(".csv"); }

void read_schedule_file(ParallelSpec& parallel, const FileReader& read_file) {
  const bool is_file = names_schedule_file(parallel.schedule);
  parallel.schedule_csv = is_file ? read_file(parallel.schedule) : "";
}

void resolve_schedule(ParallelSpec& parallel) {
  if (names_schedule_file(parallel.schedule)) return;  // the file says which stages there are
  const ScheduleKind& kind = schedule_kind(parallel.schedule);
  if (parallel.virtual_stages == 0) parallel.virtual_stages = kind.virtual_stages;
  require_config(kind.any_virtual_stages || parallel.virtual_stages == kind.virtual_stages,
                 "schedule {} has {} stage{} per rank, but virtual_stages = {}; use virtual_stages "
                 "= {}, or schedule = \"interleaved\"",
                 kind.name, kind.virtual_stages, kind.virtual_stages == 1 ? "" : "s",
                 parallel.virtual_stages, kind.virtual_stages);
}

}  // namespace tessera

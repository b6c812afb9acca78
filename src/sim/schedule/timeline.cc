#include "sim/schedule/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

std::string counted(int count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : (noun.ends_with("ch") ? "es" : "s"));
}

}  // namespace

SimulatedSchedule simulate_schedule(const PipelineSchedule& schedule, const PassCosts& costs) {
  SimulatedSchedule simulated{
      .schedule = schedule, .timeline = replay(schedule, costs), .facts = {}};
  simulated.facts = facts_of(simulated.timeline);
  return simulated;
}

std::string schedule_title(const PipelineSchedule& schedule) {
  return fmt::format("{}: {}, {}, {}", schedule.name, counted(schedule.ranks, "rank"),
                     counted(schedule.stages, "stage"),
                     counted(schedule.micro_batches, "micro-batch"));
}

std::string bubble_text(const ScheduleFacts& facts) {
  return fmt::format("bubble {:.1f} %", 100 * facts.bubble);
}

std::vector<int> stages_of_rank(const PipelineSchedule& schedule, int rank) {
  std::vector<int> stages;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (schedule.rank_of_stage[static_cast<size_t>(stage)] == rank) stages.push_back(stage);
  }
  return stages;
}

int chunk_of_stage(const PipelineSchedule& schedule, int stage) {
  const std::vector<int>& ranks = schedule.rank_of_stage;
  return static_cast<int>(
      std::count(ranks.begin(), ranks.begin() + stage, ranks[static_cast<size_t>(stage)]));
}

nlohmann::ordered_json schedule_json(const SimulatedSchedule& simulated) {
  const auto& [schedule, timeline, facts] = simulated;
  nlohmann::ordered_json json;
  json["schedule"] = schedule.name;
  json["asynchronous"] = schedule.asynchronous;
  json["num_stages"] = schedule.stages;
  json["num_micro_batches"] = schedule.micro_batches;
  json["rank_of_stage"] = schedule.rank_of_stage;
  json["makespan"] = facts.makespan;
  json["bubble"] = facts.bubble;
  json["peak_live"] = facts.peak_live;
  json["ranks"] = nlohmann::ordered_json::array();
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const RankFacts& of_rank = facts.ranks[static_cast<size_t>(rank)];
    nlohmann::ordered_json entry;
    entry["rank"] = rank;
    entry["stages"] = stages_of_rank(schedule, rank);
    entry["busy"] = of_rank.busy;
    entry["idle_inside"] = of_rank.idle_inside;
    entry["peak_live"] = of_rank.peak_live;
    entry["actions"] = nlohmann::ordered_json::array();
    for (const TimedAction& timed : timeline.ranks[static_cast<size_t>(rank)]) {
      entry["actions"].push_back(
          {{"cell", cell_text(timed.action)}, {"begin", timed.begin}, {"end", timed.end}});
    }
    json["ranks"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace tessera

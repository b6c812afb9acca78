#include "api/show/timeline/timeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "api/show/run_fields.h"
#include "api/show/timeline/stage_marks.h"
#include "api/show/timeline/step_marks.h"
#include "api/show/values.h"
#include "api/stage_simulation.h"
#include "base/error.h"
#include "base/index.h"
#include "base/text/ranks_text.h"
#include "base/text/text.h"
#include "draw/run_title.h"
#include "draw/step_text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostMarks = 1'000'000;
constexpr size_t kMostMemoryPoints = 20'000;  // of all classes together

// What a timeline has beside the words of its simulation.
struct Timeline {
  double end_s = 0;  // of the last mark
  std::string detail = "passes";
  Joined joined = {};
  Labels labels = {};
  std::vector<std::vector<MarkRow>> marks = {};  // by class
  Json classes = Json::array();                  // the same order, without their marks
};

Json coords_json(const Mesh& mesh, int rank) {
  Json coords = Json::object();
  for (const Axis axis : {Axis::kPp, Axis::kDp, Axis::kFsdp, Axis::kCp, Axis::kTp}) {
    const AxisSet axes = axis == Axis::kFsdp ? fsdp_axes() : AxisSet(axis);
    if (mesh.size(axes) > 1) coords[name_of(axes)] = mesh.position(rank, axes);
  }
  return coords;
}

// [[first, last], …]
Json ranges_json(const std::vector<int>& ranks) {
  Json ranges = Json::array();
  for (size_t i = 0, end = 0; i < ranks.size(); i = end) {
    end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    ranges.push_back({ranks[i], ranks[end - 1]});
  }
  return ranges;
}

Json head_of_class(const Mesh& mesh, const std::vector<int>& ranks) {
  const std::string shared = shared_coords(mesh, ranks);
  return {{"rank", ranks.front()},
          {"ranks", ranks.size()},
          {"members", ranges_json(ranks)},
          {"coords", coords_json(mesh, ranks.front())},
          {"label", ranks_text(ranks) + (shared.empty() ? "" : " (" + shared + ")")}};
}

Json times_json(const std::map<std::string, double>& times) {
  Json json = Json::object();
  for (const auto& [group, seconds] : times) json[group] = seconds;
  return json;
}

void add_memory(const RankTimeline& rank, double makespan, size_t most, Json& json) {
  MemoryUse fullest;
  Json points = Json::array();
  for (const MemoryUse& use : memory_use(rank, makespan, most)) {
    points.push_back({use.time, use.bytes});
    if (use.bytes > fullest.bytes) fullest = use;
  }
  json["memory_bytes"] = rank.program->total_bytes();
  json["fullest_bytes"] = fullest.bytes;
  json["fullest_s"] = fullest.time;
  json["memory"] = std::move(points);
}

// Whether every instruction can be a mark of its own.
bool are_few(const StepTimeline& timeline, const std::vector<ShownRow>& rows, int64_t most) {
  size_t count = 0;
  for (const ShownRow& row : rows) count += count_instructions(timeline.ranks[row.of_class]);
  return count <= static_cast<size_t>(most);
}

Timeline timeline_of(const StepSimulation& simulation, const TimelineQuery& query) {
  const StepTimeline& step = simulation.timeline();
  const std::vector<ShownRow> rows = rows_to_show(step, simulation.activities());
  Timeline result;
  result.end_s = step.makespan;
  const bool each =
      query.detail.empty() ? are_few(step, rows, query.most_marks) : query.detail == "instructions";
  if (each) result.detail = "instructions";
  for (const ShownRow& row : rows) {
    const RankTimeline& rank = step.ranks[row.of_class];
    const RankActivity& activity = simulation.activities()[row.of_class];
    result.marks.push_back(
        (each ? instruction_marks : pass_marks)(rank, activity, step.makespan, result.labels));
    Json json = head_of_class(step.mesh, row.ranks);
    json["compute_s"] = activity.compute_s;
    json["update_s"] = activity.update_s;
    json["exposed_s"] = times_json(activity.exposed_s);
    json["communication_s"] = times_json(activity.communication_s);
    json["idle_s"] = activity.idle_s;
    add_memory(rank, step.makespan, kMostMemoryPoints / rows.size(), json);
    result.classes.push_back(std::move(json));
  }
  return result;
}

std::vector<int> ranks_of_stage(const Mesh& mesh, int pipeline_rank) {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh.world(); ++rank) {
    if (mesh.coord(rank, Axis::kPp) == pipeline_rank) ranks.push_back(rank);
  }
  return ranks;
}

Timeline timeline_of(const StageSimulation& simulation) {
  const PlayedStages played = simulation.played();
  const Mesh mesh = mesh_of(simulation.spec().parallel);
  Timeline result;
  result.end_s = played.end_s();
  for (int rank = 0; rank < played.pipeline.schedule.ranks; ++rank) {
    const RankFacts& facts = played.pipeline.facts.ranks[index(rank)];
    result.marks.push_back(stage_marks(played, rank, result.labels));
    Json json = head_of_class(mesh, ranks_of_stage(mesh, rank));
    json["busy_s"] = facts.busy;
    json["exposed_s"] = {{"dp", played.sums_s}};
    json["update_s"] = played.optimizer_s;
    json["idle_s"] = played.pipeline.facts.makespan - facts.busy;
    json["peak_live"] = facts.peak_live;
    json["live"] = live_micro_batches(played, rank);
    result.classes.push_back(std::move(json));
  }
  return result;
}

void join(Timeline& timeline, const TimelineQuery& query) {
  timeline.joined = join_marks(timeline.marks, timeline.end_s,
                               static_cast<size_t>(query.most_marks), timeline.labels);
}

std::string joined_text(const Joined& joined) {
  if (joined.below_s == 0) return "";
  return fmt::format(
      "neighbouring marks of the same pass{} that are less than {} apart are one mark, and waits "
      "shorter than that are part of it",
      joined.across_micro_batches ? "" : " and micro-batch", seconds_text(joined.below_s));
}

Json document(Json simulated, Timeline timeline) {
  simulated.erase("schema_version");
  simulated.erase("kind");
  simulated.erase("classes");
  Json guesses = std::move(simulated["guesses"]);
  simulated.erase("guesses");
  simulated["end_s"] = timeline.end_s;
  simulated["detail"] = timeline.detail;
  simulated["marks"] = count_marks(timeline.marks);
  if (timeline.joined.below_s > 0) {
    simulated["joined"] = {{"below_s", timeline.joined.below_s},
                           {"across_micro_batches", timeline.joined.across_micro_batches},
                           {"text", joined_text(timeline.joined)}};
  }
  simulated["passes"] = mark_kinds_json();
  simulated["labels"] = timeline.labels.texts();
  for (size_t c = 0; c < timeline.marks.size(); ++c) {
    timeline.classes[c]["rows"] = marks_json(timeline.marks[c]);
  }
  simulated["classes"] = std::move(timeline.classes);
  simulated["guesses"] = std::move(guesses);
  return simulated;
}

std::string footnote(const Timeline& timeline) {
  const std::string how = joined_text(timeline.joined);
  return fmt::format("\n{} of {} on {} of ranks{}\n",
                     count_of(static_cast<int64_t>(count_marks(timeline.marks)), "mark"),
                     timeline.detail, count_of(std::ssize(timeline.marks), "row"),
                     how.empty() ? "" : "; " + how);
}

// Simulates the run as asked, and hands the simulation and its timeline on.
template <typename Use>
auto with_simulation(const TimelineQuery& query, const Surroundings& around, const Use& use) {
  std::vector<Guess> guesses;
  const SimulateQuery run = with_recipe(query.run, around, guesses);
  const RunSpec spec = load_simulated(run, around, guesses);
  const bool asked = query.by == "stages";
  require_config(!asked || (run.slow.empty() && run.lost.empty() && !run.no_contention &&
                            !run.all_ranks && query.detail != "instructions"),
                 "timeline: by stages there are no slow or lost ranks, no contention and no "
                 "instructions: leave out by, or what is asked of them");
  std::string why = asked ? "asked for" : why_by_stages(run, spec);
  require_config(query.by != "instructions" || why.empty(),
                 "timeline: by is \"instructions\", but {}; use by \"stages\", or leave it out",
                 why);
  if (why.empty()) {
    const StepSimulation simulation(run, spec, std::move(guesses), around);
    Timeline timeline = timeline_of(simulation, query);
    join(timeline, query);
    return use(simulation, std::move(timeline));
  }
  const StageSimulation simulation(run, spec, std::move(guesses), around, std::move(why));
  Timeline timeline = timeline_of(simulation);
  join(timeline, query);
  return use(simulation, std::move(timeline));
}

}  // namespace

TimelineQuery timeline_query(const nlohmann::json& request) {
  TimelineQuery query;
  Fields fields(request, "timeline");
  read_simulated(fields, query.run);
  fields.choice("by", query.by, kSimulatedBy);
  fields.choice("detail", query.detail, kMarkDetails);
  fields.whole("most_marks", query.most_marks, 1);
  fields.finish();
  require_config(query.most_marks <= kMostMarks, "timeline: most_marks is {}: expected at most {}",
                 query.most_marks, kMostMarks);
  return query;
}

nlohmann::ordered_json timeline_json(const TimelineQuery& query, const Surroundings& around) {
  return with_simulation(query, around, [](const auto& simulation, Timeline timeline) {
    return document(simulation.json(), std::move(timeline));
  });
}

std::string timeline_text(const TimelineQuery& query, const Surroundings& around) {
  return with_simulation(query, around, [](const auto& simulation, const Timeline& timeline) {
    return simulation.text() + footnote(timeline);
  });
}

ShowTopic timeline_topic() {
  static const std::vector<ShowField> fields = with_run_fields(
      {{"slow", ShowField::Kind::kTexts, "", "a rank whose kernels take longer", 0, 0, "",
        "rank=R,factor=X"},
       {"lost", ShowField::Kind::kText, "", "a rank that is lost, and at what part of the step", 0,
        0, "", "rank=R,at=X"},
       {"no_contention", ShowField::Kind::kTruth, "",
        "let kernels keep their speed beside communication"},
       {"all_ranks", ShowField::Kind::kTruth, "", "also those that do the same as others"},
       {"by", ShowField::Kind::kChoice, "", "what is simulated (default: as simulate)", 0, 0,
        kSimulatedBy},
       {"detail", ShowField::Kind::kChoice, "",
        "what a mark is (default: an instruction where they are few)", 0, 0, kMarkDetails},
       {"most_marks", ShowField::Kind::kWhole, "",
        "neighbours are joined until there are no more (default 50000)", 1, kMostMarks}});
  return {"timeline",
          "A simulated step as marks over time: what every stream of a rank does when.",
          "--model llama-3-8b --cluster h100-64 --tp 2 --pp 4 --zero 1",
          fields,
          [](const ShowValues& values, const Surroundings& around) {
            return timeline_json(timeline_query(values.request()), around);
          },
          for_terminals([](const ShowValues& values, const Surroundings& around) {
            return timeline_text(timeline_query(values.request()), around);
          })};
}

}  // namespace tessera

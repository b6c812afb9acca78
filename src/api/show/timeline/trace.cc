#include "api/show/timeline/trace.h"

#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "api/show/run_fields.h"
#include "api/show/values.h"
#include "api/stage_simulation.h"
#include "base/error.h"
#include "draw/trace.h"

namespace tessera {
namespace {

// What a viewer opens in seconds, and an answer holds as text and as JSON at one time.
constexpr size_t kMostTraced = size_t{1} << 17;

void require_traceable(const StepTimeline& timeline) {
  size_t instructions = 0;
  for (const RankTimeline& rank : timeline.ranks) instructions += rank.times.size();
  require_config(instructions <= kMostTraced,
                 "trace: it would have {} instructions, more than the {} that are; use a smaller "
                 "global_batch or fewer layers, or ask for a timeline",
                 instructions, kMostTraced);
}

}  // namespace

SimulateQuery trace_query(const nlohmann::json& request) {
  SimulateQuery query;
  Fields fields(request, "trace");
  read_simulated(fields, query);
  fields.finish();
  return query;
}

std::string trace_text(const SimulateQuery& asked, const Surroundings& around) {
  std::vector<Guess> guesses;
  const SimulateQuery query = with_recipe(asked, around, guesses);
  const RunSpec spec = load_simulated(query, around, guesses);
  const std::string why = why_by_stages(query, spec, true);
  require_config(why.empty(), "trace: {}", why);
  const StepSimulation simulation(query, spec, std::move(guesses), around);
  require_traceable(simulation.timeline());
  return trace_json(simulation.timeline(), simulation.activities(), {simulation.digest()});
}

ShowTopic trace_topic() {
  static const std::vector<ShowField> fields = with_run_fields(
      {{"slow", ShowField::Kind::kTexts, "", "a rank whose kernels take longer", 0, 0, "",
        "rank=R,factor=X"},
       {"lost", ShowField::Kind::kText, "", "a rank that is lost, and at what part of the step", 0,
        0, "", "rank=R,at=X"},
       {"no_contention", ShowField::Kind::kTruth, "",
        "let kernels keep their speed beside communication"},
       {"all_ranks", ShowField::Kind::kTruth, "", "also those that do the same as others"}});
  return {"trace",
          "A simulated step as a trace for ui.perfetto.dev.",
          "--run-file examples/demo.toml --cluster h100",
          fields,
          [](const ShowValues& values, const Surroundings& around) {
            const std::string text = trace_text(trace_query(values.request()), around);
            return nlohmann::ordered_json{{"trace", nlohmann::ordered_json::parse(text)}};
          },
          for_terminals([](const ShowValues& values, const Surroundings& around) {
            return trace_text(trace_query(values.request()), around);
          })};
}

}  // namespace tessera

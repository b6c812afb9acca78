#include "api/call.h"
#include "api/failing_run.h"
#include "api/plan.h"
#include "api/simulate.h"
#include "api/stage_simulation.h"
#include "base/error.h"
#include "base/text/json.h"
#include "draw/plan_svg.h"
#include "draw/schedule_svg.h"
#include "draw/step_svg.h"
#include "library/surroundings.h"

namespace tessera {
namespace {

nlohmann::json object_of(const std::string& method, const Json& request) {
  require_config(request.is_object(), "{}: the request is of type {}: expected an object of keys",
                 method, request.type_name());
  return request;
}

std::string step_picture(const SimulateQuery& query, const RunSpec& spec,
                         std::vector<Guess> guesses, const Surroundings& around) {
  std::string why = why_by_stages(query, spec);
  if (!why.empty()) {
    return StageSimulation(query, spec, std::move(guesses), around, std::move(why)).svg();
  }
  const StepSimulation simulation(query, spec, std::move(guesses), around);
  return step_svg(simulation.timeline(), simulation.activities(), simulation.picture_title());
}

}  // namespace

Refusal::Refusal(const std::string& message, int exit_code)
    : std::runtime_error(message), exit_code_(exit_code) {}
Refusal::~Refusal() = default;

Json ask(const std::string& method, const Json& request) {
  return library::refusing([&] { return call(method, request, library::surroundings()); });
}

Json plan(const Json& request) { return ask("plan", request); }
Json simulate(const Json& request) { return ask("simulate", request); }
Json presets(const std::string& kind) { return ask("presets", {{"kind", kind}}); }
Json explain(const std::string& topic, const Json& given) {
  return ask("explain", {{"topic", topic}, {"given", given}});
}

Json search(const Json& request, const OnSearchRound& on_round) {
  return library::refusing([&] {
    Surroundings around = library::surroundings();
    if (on_round) {
      around.progress = [&](const SearchProgress& progress) {
        return on_round(progress.groups_done, progress.groups);
      };
    }
    return call("search", request, around);
  });
}

std::string plan_picture(const Json& request) {
  return library::refusing([&] {
    nlohmann::json rest = object_of("plan", request);
    const Surroundings around = take_files_of(rest, library::surroundings());
    return plan_svg(make_plan(plan_request(plan_query(rest), around)));
  });
}

std::string simulation_picture(const Json& request) {
  return library::refusing([&] {
    nlohmann::json rest = object_of("simulate", request);
    const Surroundings around = take_files_of(rest, library::surroundings());
    std::vector<Guess> guesses;
    const SimulateQuery query = with_recipe(simulate_query(rest), around, guesses);
    const RunSpec spec = load_simulated(query, around, guesses);
    check_failing(query);
    if (!query.failing.mtbf.empty()) {
      return FailingRunSimulation(query, spec, std::move(guesses), around).svg();
    }
    if (!query.schedule_only) return step_picture(query, spec, std::move(guesses), around);
    check_schedule_alone(query);
    return schedule_svg(simulate_schedule_of(spec));
  });
}

}  // namespace tessera

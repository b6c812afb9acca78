#include "api/call.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/explain.h"
#include "api/failing_run.h"
#include "api/plan.h"
#include "api/presets.h"
#include "api/recipe.h"
#include "api/search.h"
#include "api/serve_plan.h"
#include "api/show/topic.h"
#include "api/simulate.h"
#include "api/stage_simulation.h"
#include "base/error.h"
#include "base/failure.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

Json answer_plan(const nlohmann::json& request, const Surroundings& around) {
  const PlanQuery query = plan_query(request);
  return plan_document(query.split, make_plan(plan_request(query, around)), around.read);
}

Json answer_vary(const nlohmann::json& request, const Surroundings& around) {
  return variation_json(vary(vary_query(request), around));
}

Json answer_emit(const nlohmann::json& request, const Surroundings& around) {
  const EmitQuery query = emit_query(request);
  return emit_json(query, emit(query, around));
}

Json answer_search(const nlohmann::json& request, const Surroundings& around) {
  return to_json(search(search_query(request), around));
}

Json answer_simulate(const nlohmann::json& request, const Surroundings& around) {
  std::vector<Guess> guesses;
  const SimulateQuery query = with_recipe(simulate_query(request), around, guesses);
  const RunSpec spec = load_simulated(query, around, guesses);
  check_failing(query);
  if (!query.failing.mtbf.empty()) {
    return FailingRunSimulation(query, spec, std::move(guesses), around).json();
  }
  if (query.schedule_only) {
    check_schedule_alone(query);
    return schedule_report_json(simulate_schedule_of(spec));
  }
  std::string why = why_by_stages(query, spec);
  if (!why.empty()) {
    return StageSimulation(query, spec, std::move(guesses), around, std::move(why)).json();
  }
  return StepSimulation(query, spec, std::move(guesses), around).json();
}

Json answer_explain(const nlohmann::json& request, const Surroundings& around) {
  return explain_json(explain(explain_query(request), around));
}

Json answer_presets(const nlohmann::json& request, const Surroundings&) {
  return presets_json(presets_query(request));
}

Json answer_serve_plan(const nlohmann::json& request, const Surroundings& around) {
  return serve::serve_plan_json(plan_to_serve(serve_plan_query(request), around));
}

std::vector<Method> all_methods() {
  std::vector<Method> all = {{"plan", answer_plan},         {"vary", answer_vary},
                             {"emit", answer_emit},         {"search", answer_search},
                             {"simulate", answer_simulate}, {"explain", answer_explain},
                             {"presets", answer_presets},   {"serve_plan", answer_serve_plan}};
  for (const ShowTopic& topic : show_topics()) {
    const auto answer = [&topic](const nlohmann::json& request, const Surroundings& around) {
      return show_json(topic, request, around);
    };
    all.push_back({topic.name, answer});
  }
  return all;
}

const Method& find_method(std::string_view name) {
  for (const Method& method : methods()) {
    if (method.name == name) return method;
  }
  std::vector<std::string_view> known;
  for (const Method& method : methods()) known.push_back(method.name);
  throw ConfigError(
      fmt::format("unknown method {}; {}", in_quotes(name), suggestion(name, known, "methods")));
}

// Takes "files" out of the request.
std::map<std::string, std::string> take_files(nlohmann::json& request) {
  std::map<std::string, std::string> files;
  const auto found = request.find("files");
  if (found == request.end()) return files;
  require_config(found->is_object(), "files is of type {}: expected an object of texts by path",
                 found->type_name());
  for (const auto& [path, text] : found->items()) {
    require_config(text.is_string(), "files: {} is of type {}: expected its text", in_quotes(path),
                   text.type_name());
    files[path] = text.get<std::string>();
  }
  request.erase("files");
  return files;
}

FileReader reader_of(std::map<std::string, std::string> files, FileReader outside) {
  return [files = std::move(files), outside = std::move(outside)](const std::string& path) {
    if (const auto found = files.find(path); found != files.end()) return found->second;
    require_config(outside != nullptr, "cannot open '{}': it is not among the request's files",
                   path);
    return outside(path);
  };
}

}  // namespace

std::span<const Method> methods() {
  static const std::vector<Method> all = all_methods();
  return all;
}

Surroundings take_files_of(nlohmann::json& request, const Surroundings& around) {
  Surroundings with_files = around;
  with_files.read = reader_of(take_files(request), around.read);
  return with_files;
}

nlohmann::ordered_json call(std::string_view method, const nlohmann::json& request,
                            const Surroundings& around) {
  const Method& found = find_method(method);
  require_config(request.is_object(), "{}: the request is of type {}: expected an object of keys",
                 method, request.type_name());
  nlohmann::json rest = request;
  const Surroundings with_files = take_files_of(rest, around);
  return found.answer(rest, with_files);
}

std::string respond(std::string_view method, std::string_view request, const Surroundings& around) {
  Json json;
  try {
    json["result"] = call(method, parse_json(request, "request"), around);
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    json["error"] = {{"code", static_cast<int>(failure.code)}, {"message", failure.text}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tessera

#include "api/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/chosen_split.h"
#include "api/fields.h"
#include "api/recipe.h"
#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "compile/pipeline/stages.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "spec/emit/emit_settings.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

void read_run(Fields& fields, PlanQuery& query) {
  read_source(fields, query.source);
  read_split(fields, query.split);
  fields.text("cluster", query.split.cluster);
}

PlanQuery with_recipe(PlanQuery query, const FileReader& read, std::vector<Guess>& guesses) {
  use_recipe(query.split, query.split.cluster, query.source, read, guesses);
  return query;
}

BlockProducts products_of(const SplitFlags& split) {
  return asks_for_fp8(split) ? BlockProducts::kFp8 : BlockProducts::kAsTrained;
}

void load_for_cluster(const PlanQuery& query, const std::string& name, const Surroundings& around,
                      std::string_view programs_for, PlanRequest& request) {
  require_config(programs_for.empty(),
                 "{} is drawn from the programs of all ranks; leave out --cluster", programs_for);
  request.cluster = find_cluster(name, around.read);
  request.spec = load_fitting_split(query.source, query.split, *request.cluster,
                                    find_engine(query.split.engine, around.read), around.read,
                                    request.guesses, &request.open);
}

void require_cluster_for_model(const PlanQuery& query) {
  require_config(query.split.model.empty(),
                 "--model {} needs a cluster to plan for: give --cluster, as in --cluster h100-8",
                 query.split.model);
}

void load_for_machine(const PlanQuery& query, const Surroundings& around,
                      std::string_view programs_for, PlanRequest& request) {
  require_cluster_for_model(query);
  RunSource source = with_settings(query.source, query.split);
  for (Setting& flag : source.flags) {  // Programs compute it
    if (flag.at == "--dtype fp8") flag.text = "train.dtype=fp8";
  }
  RunSpec spec = source.load(around.read);
  const bool by_templates = !can_compile_every_rank(spec);
  if (by_templates) {
    require_config(programs_for.empty(),
                   "{} layers x {} micro-batches x {} ranks are too many to compile one by one for "
                   "{}; use fewer of them",
                   spec.model.layers, accumulation(spec), spec.parallel.world(), programs_for);
    const std::string name = assumed_cluster(spec);
    request.guesses.push_back({"cluster", name + ", since none is named (--cluster)"});
    load_for_cluster(query, name, around, programs_for, request);
    if (around.use_machine == nullptr) return;
  } else {
    request.open = open_settings_of(source, around.read);
  }
  require_config(around.use_machine != nullptr,
                 "this run takes threads and memory from the machine, and here is none: give "
                 "--cluster, as in --cluster h100-8");
  request.limit_of = around.use_machine(spec);
  if (!request.limit_of.empty()) request.limit_of += "; --cluster plans for another";
  // A run that is too large to be compiled here is still one of this machine.
  if (by_templates) {
    request.spec.cluster.memory_gib = spec.cluster.memory_gib;
  } else {
    request.spec = std::move(spec);
  }
}

// A key that varies and that something else of the command line gives a value.
void refuse_fixed_keys(const std::vector<VariedKey>& keys, const RunSource& source) {
  const std::vector<std::string> of_mesh = keys_of_mesh(source.mesh);
  for (const VariedKey& varied : keys) {
    for (const Setting& setting : source.settings()) {
      const std::string_view key = std::string_view(setting.text).substr(0, setting.text.find('='));
      require_config(trim(key) != varied.key,
                     "--vary {} and {} both give {} a value: keep one of them", varied.text,
                     setting.at, varied.key);
    }
    const bool in_mesh = !source.mesh.empty() &&
                         (is_mesh_axis(varied.key) ||
                          std::find(of_mesh.begin(), of_mesh.end(), varied.key) != of_mesh.end());
    require_config(!in_mesh,
                   "--vary {} and --mesh {} both give {} a value: leave out --mesh, and give the "
                   "other axes by flags (--tp, --pp, …)",
                   varied.text, source.mesh, varied.key);
  }
}

}  // namespace

PlanQuery plan_query(const nlohmann::json& request) {
  PlanQuery query;
  Fields fields(request, "plan");
  read_run(fields, query);
  fields.count("tokens", query.split.tokens);
  read_failures(fields, query.failures);
  fields.truth("advice", query.advice);
  fields.finish();
  return query;
}

OpenSettings open_settings_of(const RunSource& source, const FileReader& read) {
  RunSpec said = parse_run(source.text(read), source.file, source.settings(), read);
  if (!source.mesh.empty()) said.parallel = parse_mesh(source.mesh, said.parallel);
  return open_settings(said);
}

PlanRequest plan_request(const PlanQuery& asked, const Surroundings& around,
                         std::string_view programs_for) {
  PlanRequest request;
  const PlanQuery query = with_recipe(asked, around.read, request.guesses);
  request.products = products_of(query.split);
  request.tokens = query.split.tokens;
  request.failures = query.failures;
  require_config(request.tokens > 0 || !request.failures.any(),
                 "--mtbf-device, --save and --restart say what failures add to the days of a "
                 "training: add --tokens, as in --tokens 1T");
  request.advise = query.advice;
  request.weigh_guesses = query.advice;
  request.digests = true;
  request.engine = find_engine(query.split.engine, around.read);
  const std::string cluster = cluster_for(query.source, query.split, around.read);
  // Every rank's Program is of this machine; a run file that names a cluster still has them.
  const bool here = query.split.cluster.empty() && !programs_for.empty();
  if (cluster.empty() || here) {
    load_for_machine(query, around, programs_for, request);
  } else {
    load_for_cluster(query, cluster, around, programs_for, request);
  }
  require_config(request.tokens == 0 || request.cluster.has_value(),
                 "--tokens needs a cluster to price the steps on: give --cluster, as in --cluster "
                 "h100-8");
  return request;
}

VaryQuery vary_query(const nlohmann::json& request) {
  VaryQuery query;
  Fields fields(request, "vary");
  read_run(fields, query.run);
  fields.text_or_texts("vary", query.vary);
  fields.finish();
  return query;
}

Variation vary(const VaryQuery& asked, const Surroundings& around) {
  std::vector<Guess> notes;
  const PlanQuery run = with_recipe(asked.run, around.read, notes);
  const std::string name = cluster_for(run.source, run.split, around.read);
  require_config(!name.empty(),
                 "--vary needs a cluster to price the runs on: give --cluster, as in --cluster "
                 "h100-8");
  const std::vector<VariedKey> keys = parse_varied(asked.vary);
  refuse_fixed_keys(keys, with_settings(run.source, run.split));
  const Cluster cluster = find_cluster(name, around.read);
  const Engine engine = find_engine(run.split.engine, around.read);
  return vary_plan(keys, [&](const std::vector<std::string>& settings) {
    RunSource source = run.source;
    for (const std::string& setting : settings) {
      source.flags.push_back({setting, "--vary " + setting});
    }
    PlanRequest request{.cluster = cluster, .engine = engine, .products = products_of(run.split)};
    request.spec = load_split(source, run.split, cluster, around.read, request.guesses);
    return request;
  });
}

EmitQuery emit_query(const nlohmann::json& request) {
  EmitQuery query;
  Fields fields(request, "emit");
  read_run(fields, query.run);
  fields.choice("system", query.system, kSystems);
  fields.finish();
  require_config(!query.system.empty(), "emit: no system given: use one of {}", kSystems);
  return query;
}

std::string emit(const EmitQuery& asked, const Surroundings& around) {
  PlanRequest request;
  EmitQuery query = asked;
  query.run = with_recipe(query.run, around.read, request.guesses);
  refuse_fp8(query.run.split, "settings of another system");
  const std::string cluster = cluster_for(query.run.source, query.run.split, around.read);
  if (cluster.empty()) {
    require_cluster_for_model(query.run);
    request.spec = with_settings(query.run.source, query.run.split).load(around.read);
  } else {
    load_for_cluster(query.run, cluster, around, "", request);
  }
  RunSpec& spec = request.spec;
  // With the cut into stages that our engine makes, so that the other system makes the same.
  if (spec.parallel.pp > 1 && spec.parallel.stage_layers.empty()) {
    spec.parallel.stage_layers = blocks_of_stages(lay_out_stages(spec, true));
  }
  return emit_settings(spec, query.system);
}

nlohmann::ordered_json emit_json(const EmitQuery& query, const std::string& settings) {
  return {{"schema_version", kSchemaVersion},
          {"kind", "settings"},
          {"system", query.system},
          {"settings", settings}};
}

}  // namespace tessera

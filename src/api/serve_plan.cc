#include "api/serve_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/error.h"
#include "base/text/quantity.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cost/hardware/catalogue.h"
#include "plan/memory_limit.h"
#include "serve/plan/named_model.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/trainable.h"

namespace tessera {
namespace {

using serve::ServeOptions;
using serve::ServeReport;

// Where nobody says how long sequences are.
constexpr int64_t kGuessedContext = 8192;
// So that the graphs of all frames are built within seconds.
constexpr int64_t kMostRanks = 4096;

int64_t count_of_axis(const char* axis, const std::string& text) {
  if (text.empty()) return 1;
  const std::optional<int64_t> count = parse_count(text);
  require_config(count && *count >= 1 && *count <= kMostRanks,
                 "--{} is {}: expected a whole number from 1 to {}, such as 8", axis,
                 in_quotes(text), kMostRanks);
  return *count;
}

void read_mesh(const ServePlanQuery& query, ServeOptions& options) {
  if (query.mesh.empty()) {
    options.tp = count_of_axis("tp", query.tp);
    options.pp = count_of_axis("pp", query.pp);
    options.ep = count_of_axis("ep", query.ep);
  } else {
    for (const auto& [flag, text] :
         {std::pair{"tp", query.tp}, {"pp", query.pp}, {"ep", query.ep}}) {
      require_config(text.empty(),
                     "--mesh {} and --{} {} both say how the model is split: keep one", query.mesh,
                     flag, text);
    }
    const ParallelSpec mesh = parse_mesh(query.mesh, ParallelSpec());
    for (const auto& [axis, size] :
         {std::pair{"dp", mesh.dp}, {"fsdp", mesh.fsdp}, {"cp", mesh.cp}}) {
      require_config(size == 1,
                     "--mesh {}: serving splits a model over tp and pp alone; leave out {}: each "
                     "replica takes as much as one",
                     query.mesh, axis);
    }
    options.tp = mesh.tp;
    options.pp = mesh.pp;
    options.ep = mesh.ep;
  }
  require_config(options.tp <= kMostRanks && options.pp <= kMostRanks / options.tp,
                 "tp = {} x pp = {} are more than the {} ranks that one model is planned on; use "
                 "smaller ones",
                 options.tp, options.pp, kMostRanks);
}

void choose_dtype(const ServePlanQuery& query, ServeOptions& options, ServeReport& report) {
  std::string name = query.dtype;
  if (name.empty()) {
    name = query.cluster.empty() ? "f32" : "bf16";
    report.guesses.push_back({"--dtype", name});
  }
  for (const DType type : {DType::kBF16, DType::kF32, DType::kF64}) {
    if (name_of(type) != name) continue;
    options.dtype = type;
    return;
  }
  throw ConfigError(fmt::format("--dtype is {}: serving has bf16, f32 and f64; use one of them",
                                in_quotes(name)));
}

void choose_context(const ServePlanQuery& query, const serve::NamedModel& model,
                    ServeOptions& options, ServeReport& report) {
  options.max_context = query.max_context;
  if (options.max_context == 0) {
    options.max_context = model.made_for > 0 ? model.made_for : kGuessedContext;
    report.guesses.push_back(
        {"--max-context", fmt::format("{}, {}", options.max_context,
                                      model.made_for > 0 ? "which the model was made for"
                                                         : "since the catalogue does not say")});
  }
  require_config(
      model.made_for == 0 || options.max_context <= model.made_for,
      "--max-context is {}, more than the {} tokens that {} was made for; use {} or less",
      options.max_context, model.made_for, in_quotes(query.model), model.made_for);
}

int64_t bytes_of_gib(double gib) {
  constexpr double kMostGib = 1 << 30;
  require_config(gib >= 0 && gib <= kMostGib,
                 "--memory-gib is {}: expected a number from 0 to {}, such as 80", gib, kMostGib);
  return static_cast<int64_t>(gib * kGibibyte);
}

void use_cluster(const ServePlanQuery& query, const Surroundings& around, ServeOptions& options,
                 ServeReport& report) {
  report.cluster = find_cluster(query.cluster, around.read);
  const Cluster& cluster = *report.cluster;
  const int64_t ranks = options.tp * options.pp;
  require_config(
      ranks <= cluster.devices,
      "tp = {} x pp = {} are {} ranks, more than the {} of cluster {}; use smaller sizes, "
      "or a cluster of more devices (h100-64 is 64 of h100)",
      options.tp, options.pp, ranks, cluster.devices, cluster.name);
  options.rank_memory_bytes =
      query.memory_gib > 0 ? bytes_of_gib(query.memory_gib) : usable_bytes(cluster);
  report.memory_of =
      query.memory_gib > 0
          ? "each rank (--memory-gib)"
          : fmt::format("one {}, but for {} that are reserved", cluster.device.name,
                        human_bytes(static_cast<int64_t>(cluster.device.reserved_bytes.value)));
  if (options.threads == 0) options.threads = 1;
  if (cluster.device.kind != DeviceKind::kCpu) {
    report.guesses.push_back({"kernels",
                              "those of a CPU with one thread for a rank: workspace of "
                              "GPU kernels is not planned yet"});
  }
}

void use_this_machine(const ServePlanQuery& query, const Surroundings& around,
                      ServeOptions& options, ServeReport& report) {
  if (query.memory_gib > 0) options.memory_bytes = bytes_of_gib(query.memory_gib);
  const bool complete = options.memory_bytes > 0 && options.threads > 0;
  require_config(complete || around.use_host != nullptr,
                 "serving takes threads and memory from the machine, and here is none: give "
                 "--cluster, as in --cluster h100-8");
  if (around.use_host != nullptr) around.use_host(options);
  report.memory_of = query.memory_gib > 0 ? "all ranks together (--memory-gib)"
                                          : "what is free on this machine, but for a tenth";
}

}  // namespace

ServePlanQuery serve_plan_query(const nlohmann::json& request) {
  ServePlanQuery query;
  Fields fields(request, "serve_plan");
  fields.text("model", query.model);
  fields.text("cluster", query.cluster);
  fields.text("mesh", query.mesh);
  fields.count_text("tp", query.tp);
  fields.count_text("pp", query.pp);
  fields.count_text("ep", query.ep);
  fields.choice("dtype", query.dtype, kServeTypes);
  fields.whole("max_context", query.max_context, 1, Thousand::kBinary);
  fields.whole("max_sequences", query.max_sequences, 1);
  fields.whole("token_budget", query.token_budget, 1);
  fields.whole("page", query.page, 1);
  fields.real("memory_gib", query.memory_gib, 0);
  fields.whole("threads", query.threads, 1);
  fields.truth("advice", query.advice);
  fields.finish();
  return query;
}

ServeReport plan_to_serve(const ServePlanQuery& query, const Surroundings& around) {
  require_config(!query.model.empty(),
                 "no model given: name one to serve, as in --serve llama-3-8b");
  ServeReport report;
  ServeOptions options;
  options.model = query.model;
  read_mesh(query, options);
  const serve::NamedModel model = serve::find_named_model(query.model, around.read);
  const std::string choice = untrainable_choice(model.spec.model);
  require_config(choice.empty(),
                 "{}: no Program of ours computes {}, and serving is planned from Programs alone; "
                 "use another model (tessera presets models)",
                 in_quotes(query.model), choice);
  choose_dtype(query, options, report);
  choose_context(query, model, options, report);
  options.page_size = query.page;
  options.max_tokens = query.token_budget;
  options.max_sequences = options.max_rows = query.max_sequences;
  options.threads = query.threads;
  if (query.cluster.empty()) {
    use_this_machine(query, around, options, report);
  } else {
    use_cluster(query, around, options, report);
  }
  report.estimate = serve::estimate_serving(model.spec, options);
  report.contexts = serve::reported_contexts(options.max_context);
  report.has_advice = query.advice;
  if (query.advice && !report.estimate.fits) {
    const int64_t most_ranks = report.cluster ? report.cluster->devices : 1;
    report.changes = serve::changes_that_fit(model.spec, report.estimate, most_ranks);
  }
  return report;
}

}  // namespace tessera

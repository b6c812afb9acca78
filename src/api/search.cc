#include "api/search.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/cluster_family.h"
#include "api/fields.h"
#include "api/recipe.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/emit/emit_settings.h"
#include "spec/emit/system_rules.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/validate.h"
#include "spec/token_batch.h"

namespace tessera {
namespace {

// Kept for simulation: closed forms are kinder to some schedules than a simulation is.
constexpr int64_t kLeastKept = 256;
constexpr int64_t kMostThreads = 256;

Objective objective_of(const std::string& name) {
  if (name == "memory") return Objective::kMemory;
  return name == "cost" ? Objective::kCost : Objective::kTime;
}

// Fills in what the recipe says and nobody else does; its split stays open.
SearchQuery with_recipe(SearchQuery query, const FileReader& read) {
  if (query.recipe.empty()) return query;
  const Recipe recipe = find_recipe(query.recipe, read);
  const auto number = [&](std::string_view key) {
    const std::string text = setting_of(recipe, key);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require_config(text.empty() || (error == std::errc() && end == text.data() + text.size()),
                   "recipe {}: {} is {}: expected a whole number", in_quotes(query.recipe), key,
                   in_quotes(text));
    return value;
  };
  if (query.model.empty()) query.model = setting_of(recipe, "model.preset");
  if (query.cluster.empty()) query.cluster = recipe.cluster;
  if (query.global_batch == 0) query.global_batch = number("train.global_batch");
  if (query.seq_len == 0) query.seq_len = number("train.seq_len");
  return query;
}

// All that is missing at once.
void require_question(const SearchQuery& query) {
  std::vector<std::string_view> lacks, flags;
  const auto need = [&](bool given, std::string_view what, std::string_view flag) {
    if (given) return;
    lacks.push_back(what);
    flags.push_back(flag);
  };
  need(!query.model.empty(), "model", "--model llama-3-8b");
  need(!query.cluster.empty(), "cluster", "--cluster h100-64");
  need(query.global_batch > 0 || query.batch_tokens > 0, "batch", "--global-batch 512");
  need(query.seq_len > 0, "sequence length", "--seq-len 8192");
  require_config(lacks.empty(), "no {} given: add {}", fmt::join(lacks, ", no "),
                 fmt::join(flags, " "));
}

// Axes that are held fast have to fit the cluster; what is left of it is searched.
void require_divisible(const SearchQuery& query, const Cluster& cluster) {
  int64_t ranks = 1;
  std::vector<std::string> flags;
  for (const auto& [flag, size] :
       {std::pair{"--tp", query.tp}, {"--pp", query.pp}, {"--dp", query.dp}, {"--cp", query.cp}}) {
    if (size == 0) continue;
    require_config(size <= cluster.devices, "{} is {}, more than the {} devices of {}", flag, size,
                   cluster.devices, cluster.name);
    flags.push_back(fmt::format("{} {}", flag, size));
    ranks *= size;
    require_config(ranks <= cluster.devices && cluster.devices % ranks == 0,
                   "{}: {} ranks do not divide the {} devices of {}; choose other values, or "
                   "another number of devices",
                   fmt::join(flags, " "), ranks, cluster.devices, cluster.name);
  }
}

void check(const SearchQuery& query) {
  require_question(query);
  require_config(query.threads <= kMostThreads, "--threads is {}: use 1 to {}", query.threads,
                 kMostThreads);
  require_config(query.top <= 10'000, "--top is {}: use 1 to 10000", query.top);
  require_config(query.usd_per_hour <= 1e6, "--usd-per-hour is {}: use 0 to 1e6",
                 query.usd_per_hour);
  require_config(query.zero <= 3, "--zero is {}: use 0 to 3", query.zero);
  require_config(query.deadline == 0 || query.tokens > 0,
                 "--deadline {}: of how many tokens? Add --tokens 1T", query.deadline);
  require_config(query.deadline > 0 || query.tokens == 0,
                 "--tokens goes with --deadline DAYS: how many devices end in time; tessera plan "
                 "--tokens says how long a plan takes");
  require_config(query.deadline == 0 || query.objective == "time",
                 "--deadline looks for the fewest devices: leave out --objective {}",
                 query.objective);
}

std::vector<PipelineKind> schedules_of(const std::string& names) {
  std::vector<PipelineKind> kinds;
  if (names.empty()) return kinds;
  std::vector<std::string_view> searched;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (!kind.asynchronous && kind.kind != PipelineKind::kNaive) {
      searched.push_back(name_of(kind.kind));
    }
  }
  for (const std::string_view piece : split(names, ',')) {
    const std::string_view name = trim(piece);
    const bool known = std::find(searched.begin(), searched.end(), name) != searched.end();
    require_config(known, "--schedule {}: no schedule that a search tries; {}", in_quotes(name),
                   suggestion(name, searched, "schedules"));
    kinds.push_back(*choice_named<PipelineKind>(name));
  }
  return kinds;
}

std::vector<RecomputeWay> ways_of(const SearchQuery& query) {
  std::vector<RecomputeWay> ways;
  if (query.recompute.empty()) return ways;
  for (const std::string_view piece : split(query.recompute, ',')) {
    const std::string_view* end = kRecomputeWays.data() + kRecomputeWays.size();
    const std::string_view* way = std::find(kRecomputeWays.data(), end, trim(piece));
    require_config(
        way != end,
        "--recompute {}: use none, selective, full (every layer) or some (as many layers "
        "as memory asks for), several with commas",
        in_quotes(trim(piece)));
    ways.push_back(static_cast<RecomputeWay>(way - kRecomputeWays.data()));
  }
  const bool nothing_else = std::all_of(
      ways.begin(), ways.end(), [](RecomputeWay way) { return way == RecomputeWay::kSelective; });
  require_config(!nothing_else || query.attention == "unfused",
                 "--recompute selective saves nothing of fused attention: add none, some or full, "
                 "or --attention unfused");
  return ways;
}

// A model that the system has no setting for is none of its plans' fault: said before the search.
void require_emittable(const SearchQuery& query, ModelSpec model) {
  if (query.system.empty() || !can_emit(query.system)) return;
  RunSpec spec;
  spec.model = std::move(model);
  spec.train.seq_len = query.seq_len;
  spec.train.dtype = DType::kBF16;
  resolve(spec);
  static_cast<void>(emit_settings(spec, query.system));
}

DeadlineQuestion question_of(const SearchQuery& query, const SearchRequest& request,
                             const Surroundings& around) {
  DeadlineQuestion question;
  question.days = query.deadline;
  question.tokens = query.tokens;
  question.most_devices = most_devices(query.cluster);
  question.devices = request.workload.cluster.devices;
  question.cluster_of = [name = query.cluster, read = around.read,
                         price = request.workload.cluster.usd_per_device_hour](int64_t devices) {
    Cluster cluster = cluster_of_size(name, devices, read);
    cluster.usd_per_device_hour = price;
    return cluster;
  };
  return question;
}

// The same search on a cluster of another size, without a deadline.
std::string command_of(SearchQuery query, const std::string& cluster) {
  query.cluster = cluster;
  query.deadline = 0;
  query.tokens = 0;
  return command_of(query);
}

}  // namespace

std::string command_of(const SearchQuery& query) {
  const SearchQuery unsaid;
  std::string text = "tessera search";
  const auto add = [&](std::string_view flag, const auto& value, const auto& usual) {
    if (value != usual) text += fmt::format(" {} {}", flag, value);
  };
  add("--model", query.model, unsaid.model);
  add("--cluster", query.cluster, unsaid.cluster);
  add("--engine", query.engine, unsaid.engine);
  add("--global-batch", query.global_batch, unsaid.global_batch);
  add("--seq-len", query.seq_len, unsaid.seq_len);
  add("--objective", query.objective, unsaid.objective);
  add("--attention", query.attention, unsaid.attention);
  add("--tp", query.tp, unsaid.tp);
  add("--pp", query.pp, unsaid.pp);
  add("--dp", query.dp, unsaid.dp);
  add("--cp", query.cp, unsaid.cp);
  add("--ep", query.ep, unsaid.ep);
  add("--micro-batch", query.micro_batch, unsaid.micro_batch);
  add("--zero", query.zero, unsaid.zero);
  add("--schedule", query.schedule, unsaid.schedule);
  add("--recompute", query.recompute, unsaid.recompute);
  add("--for", query.system, unsaid.system);
  add("--deadline", query.deadline, unsaid.deadline);
  add("--tokens", query.tokens, unsaid.tokens);
  add("--top", query.top, unsaid.top);
  return text;
}

SearchQuery search_query(const nlohmann::json& request) {
  SearchQuery query;
  Fields fields(request, "search");
  fields.text("model", query.model);
  fields.text("cluster", query.cluster);
  fields.text("recipe", query.recipe);
  fields.text("engine", query.engine);
  fields.batch("global_batch", query.global_batch, query.batch_tokens);
  fields.whole("seq_len", query.seq_len, 1, Thousand::kBinary);
  fields.choice("objective", query.objective, "time|memory|cost");
  fields.choice("attention", query.attention, "flash|unfused");
  fields.whole("tp", query.tp, 1);
  fields.whole("pp", query.pp, 1);
  fields.whole("dp", query.dp, 1);
  fields.whole("cp", query.cp, 1);
  fields.whole("ep", query.ep, 1);
  fields.whole("micro_batch", query.micro_batch, 1);
  fields.whole("zero", query.zero, 0);
  fields.text("schedule", query.schedule);
  fields.text("recompute", query.recompute);
  fields.choice("for", query.system, system_names());
  fields.real("deadline", query.deadline, 0);
  fields.count("tokens", query.tokens);
  fields.whole("top", query.top, 1);
  fields.truth("pareto", query.pareto);
  fields.real("usd_per_hour", query.usd_per_hour, 0);
  fields.whole("threads", query.threads, 1);
  fields.finish();
  return query;
}

SearchRequest search_request(const SearchQuery& query, const ModelSpec& model,
                             const Surroundings& around) {
  SearchRequest request;
  request.workload.model = shape_of(model, query.seq_len);
  request.workload.cluster = find_cluster(query.cluster, around.read);
  request.workload.engine = find_engine(query.engine, around.read).numbers;
  if (query.usd_per_hour >= 0) {
    request.workload.cluster.usd_per_device_hour = {query.usd_per_hour, Provenance::kDefault,
                                                    "--usd-per-hour"};
  }
  request.workload.seq_len = query.seq_len;
  request.workload.global_batch = query.global_batch;
  request.workload.loss_chunk = TrainSpec().loss_chunk;  // as the run files of plans have it
  if (query.attention == "unfused") request.workload.attention = AttentionKind::kUnfused;
  request.objective = objective_of(query.objective);
  request.pareto = query.pareto;
  request.fixed = {query.tp, query.pp, query.dp, query.cp, query.ep, query.micro_batch, query.zero};
  request.fixed.schedules = schedules_of(query.schedule);
  request.fixed.recompute = ways_of(query);
  if (!query.system.empty()) request.fixed.system = &rules_of(query.system);
  request.keep = std::max(kLeastKept, 2 * query.top);
  request.threads = query.threads > 0 ? static_cast<int>(query.threads) : around.threads;
  return request;
}

SearchReport search(const SearchQuery& asked, const Surroundings& around) {
  SearchQuery query = with_recipe(asked, around.read);
  check(query);
  if (query.batch_tokens > 0) {
    query.global_batch = sequences_of(query.batch_tokens, query.seq_len, "--global-batch");
  }
  ModelSpec model = find_model(query.model, around.read).model;
  model.preset = query.model;
  SearchRequest request = search_request(query, model, around);
  if (query.deadline == 0) require_divisible(query, request.workload.cluster);
  require_emittable(query, model);
  ReportOptions options{query.top, true, query.cluster,
                        query.engine == SearchQuery().engine ? "" : query.engine,
                        command_of(query)};
  if (query.deadline == 0) {
    return search_report(request, model, options, around.read, around.progress);
  }
  DeadlineAnswer answer =
      search_deadline(request, question_of(query, request, around), around.progress);
  SearchReport report;
  report.workload = request.workload;
  report.model = model;
  report.limit_bytes = usable_bytes(request.workload.cluster);
  if (answer.devices > 0) {
    request.workload.cluster = answer.question.cluster_of(answer.devices);
    options.cluster = name_of_size(query.cluster, answer.devices);
    options.command = command_of(query, options.cluster);
    report = search_report(request, model, options, around.read, around.progress);
  }
  report.deadline = std::move(answer);
  return report;
}

}  // namespace tessera

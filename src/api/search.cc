#include "api/search.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "api/recipe.h"
#include "base/error.h"
#include "base/text.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/token_batch.h"

namespace tessera {
namespace {

// Kept for simulation: closed forms are kinder to some schedules than a simulation is.
constexpr int64_t kLeastKept = 256;
constexpr int64_t kMostThreads = 1024;

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

void check(const SearchQuery& query) {
  require_config(!query.model.empty(), "no model given: add --model llama-3-8b");
  require_config(!query.cluster.empty(), "no cluster given: add --cluster h100-64");
  require_config(query.global_batch > 0 || query.batch_tokens > 0,
                 "no batch given: add --global-batch 512");
  require_config(query.seq_len > 0, "no sequence length given: add --seq-len 8192");
  require_config(query.top <= 10'000, "--top is {}: use 1 to 10000", query.top);
  require_config(query.usd_per_hour <= 1e6, "--usd-per-hour is {}: use 0 to 1e6",
                 query.usd_per_hour);
  require_config(query.zero <= 3, "--zero is {}: use 0 to 3", query.zero);
}

}  // namespace

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
  request.keep = std::max(kLeastKept, 2 * query.top);
  request.threads =
      query.threads > 0 ? static_cast<int>(std::min(query.threads, kMostThreads)) : around.threads;
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
  const SearchRequest request = search_request(query, model, around);
  return search_report(request, model, {query.top, true}, around.read, around.progress);
}

}  // namespace tessera

#include <nlohmann/json.hpp>

#include "plan/report/plan_json.h"
#include "serve/plan/serve_report.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::ordered_json;

Json model_json(const ServeEstimate& e) {
  const ModelSpec& m = e.spec.model;
  Json json = {{"name", m.preset.empty() ? m.hf : m.preset},
               {"parameters", e.num_parameters},
               {"layers", m.layers},
               {"hidden", m.hidden},
               {"heads", m.heads},
               {"kv_heads", m.kv_heads},
               {"head_dim", m.head_dim},
               {"vocab", m.vocab}};
  if (m.experts > 0) json["experts"] = m.experts;
  return json;
}

Json memory_json(const RankBytes& bytes) {
  Json json;
  for (const ArenaKind arena : kAllArenas) {
    if (arena == ArenaKind::kGradients || arena == ArenaKind::kOptimizer) continue;
    json[std::string(name_of(arena))] = bytes.at(arena);
  }
  json["total"] = bytes.total();
  return json;
}

Json traffic_json(const std::vector<Traffic>& traffic) {
  Json json = Json::array();
  for (const Traffic& t : traffic) {
    json.push_back(
        {{"group", t.group}, {"op", t.op}, {"calls", t.calls}, {"bytes_sent", t.bytes_sent}});
  }
  return json;
}

Json stages_json(const ServeEstimate& e) {
  Json json = Json::array();
  for (const StageEstimate& stage : e.stages) {
    json.push_back({{"first_rank", stage.first_rank},
                    {"ranks", stage.ranks},
                    {"first_layer", stage.first_layer},
                    {"layers", stage.layers},
                    {"embedding", stage.has_embedding},
                    {"head", stage.has_head},
                    {"memory_bytes", memory_json(stage.bytes)},
                    {"page_bytes", stage.page_bytes}});
  }
  return json;
}

Json frames_json(const ServeEstimate& e) {
  Json json = Json::array();
  for (size_t b = 0; b < e.buckets.size(); ++b) {
    const FrameBucket& bucket = e.buckets[b];
    Json stages = Json::array();
    for (const StageEstimate& stage : e.stages) {
      const FrameWork& work = stage.frames[b];
      stages.push_back({{"flops", work.flops},
                        {"bytes", work.bytes},
                        {"room_bytes", work.room_bytes},
                        {"traffic", traffic_json(e.traffic(b, stage.first_rank))}});
    }
    json.push_back({{"tokens", bucket.tokens},
                    {"sequences", bucket.sequences},
                    {"rows", bucket.rows},
                    {"stages", std::move(stages)}});
  }
  return json;
}

Json cache_json(const ServeReport& report) {
  const ServeEstimate& e = report.estimate;
  Json most = Json::array();
  for (const int64_t context : report.contexts) {
    most.push_back({{"context", context}, {"sequences", e.most_sequences(context)}});
  }
  return {{"pages", e.shape.num_pages},
          {"page", e.shape.page_size},
          {"tokens", e.cache_tokens()},
          {"page_bytes", e.page_bytes},
          {"bytes_per_token", e.bytes_per_token()},
          {"kv_heads", e.splits_kv_heads ? "split" : "whole"},
          {"kv_heads_of_rank", e.spec.model.kv_heads / (e.splits_kv_heads ? e.options.tp : 1)},
          {"most_sequences", std::move(most)}};
}

Json limit_json(const ServeReport& report) {
  const PageTerms terms = page_terms(report.estimate);
  return {{"bytes", terms.limit_bytes},
          {"of", terms.stage == nullptr ? "all ranks" : "a rank"},
          {"whose", report.memory_of},
          {"rank", terms.stage == nullptr ? 0 : terms.stage->first_rank},
          {"beside_cache_bytes", terms.beside_bytes},
          {"line_bytes", terms.line_bytes},
          {"page_bytes", terms.page_bytes}};
}

Json floor_json(const ServeReport& report) {
  Json json = Json::array();
  for (const DecodeFloor& floor : decode_floors(report)) {
    json.push_back({{"sequences", floor.sequences},
                    {"context", floor.context},
                    {"bytes", floor.bytes},
                    {"step_s", floor.step_s},
                    {"slowest_stage_s", floor.slowest_stage_s}});
  }
  return json;
}

}  // namespace

Json serve_plan_json(const ServeReport& report) {
  const ServeEstimate& e = report.estimate;
  Json json = {{"schema_version", 1}, {"kind", "serve_plan"}};
  json["model"] = model_json(e);
  if (report.cluster) {
    json["cluster"] = {{"name", report.cluster->name}, {"device", report.cluster->device.name}};
  }
  json["mesh"] = {
      {"tp", e.options.tp}, {"pp", e.options.pp}, {"ep", e.options.ep}, {"ranks", e.world()}};
  json["dtype"] = name_of(e.spec.train.dtype);
  json["threads"] = e.options.threads;
  json["max_context"] = e.shape.max_context;
  json["max_sequences"] = e.shape.max_sequences;
  json["token_budget"] = e.shape.max_tokens;
  json["fits"] = e.fits;
  json["limit"] = limit_json(report);
  json["cache"] = cache_json(report);
  json["total_bytes"] = e.total_bytes();
  json["stages"] = stages_json(e);
  json["frames"] = frames_json(e);
  if (report.cluster) json["decode_floor"] = floor_json(report);
  if (report.has_advice && !e.fits) {
    json["changes"] = Json::array();
    for (const ServeChange& change : report.changes) {
      json["changes"].push_back(
          {{"flag", change.flag}, {"value", change.value}, {"pages", change.pages}});
    }
  }
  json["guesses"] = guesses_json(report.guesses);
  return json;
}

}  // namespace tessera::serve

#include "plan/report/plan_json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "plan/report/links.h"
#include "plan/report/plan_why.h"
#include "plan/report/training.h"
#include "spec/run_file/validate_fp8.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

// All but the inner part of fsdp where there is none.
std::vector<Axis> reported_axes(const Mesh& mesh) {
  std::vector<Axis> axes;
  for (const Axis axis : kAllAxes) {
    if (axis != Axis::kFsdpIn || mesh.size(axis) > 1) axes.push_back(axis);
  }
  return axes;
}

ordered_json memory_json(const ArenaBytes& memory) {
  ordered_json json;
  int64_t total = 0;
  for (const ArenaKind arena : kTrainingArenas) {
    const int64_t bytes = memory[static_cast<size_t>(arena)];
    json[std::string(name_of(arena))] = bytes;
    total += bytes;
  }
  json["total"] = total;
  return json;
}

ordered_json traffic_json(const std::vector<Traffic>& traffic) {
  ordered_json json = ordered_json::array();
  for (const Traffic& t : traffic) {
    json.push_back(
        {{"group", t.group}, {"op", t.op}, {"calls", t.calls}, {"bytes_sent", t.bytes_sent}});
  }
  return json;
}

ordered_json class_json(const Plan& plan, const PlannedClass& one) {
  ordered_json json;
  json["pipeline_rank"] = one.pipeline_rank;
  json["first_rank"] = one.first_rank;
  json["ranks"] = one.ranks;
  for (const auto& [stage, count] : one.in_flight) {
    json["stages"].push_back({{"stage", stage},
                              {"layers", plan.stage_blocks[static_cast<size_t>(stage)]},
                              {"in_flight", count}});
  }
  if (plan.schedule.asynchronous) json["weight_versions"] = one.weight_versions;
  json["memory_bytes"] = memory_json(one.memory);
  json["traffic"] = traffic_json(one.traffic);
  return json;
}

ordered_json links_json(const PlannedStep& step) {
  ordered_json json = ordered_json::array();
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    const AxisTraffic& traffic = step.estimate.traffic[static_cast<size_t>(axis)];
    if (traffic.bytes <= 0) continue;
    json.push_back({{"axis", std::string(name_of(static_cast<CommAxis>(axis)))},
                    {"link", link_name(step.cluster, traffic.level)},
                    {"bytes", traffic.bytes},
                    {"busy_s", traffic.busy_s}});
  }
  return json;
}

ordered_json failures_json(const Plan& plan) {
  const FailurePlan& f = *plan.failures;
  ordered_json json = {{"mtbf_device_s", f.mtbf_device_s},
                       {"mtbf_s", f.model.mtbf},
                       {"checkpoint_bytes", f.checkpoint_bytes},
                       {"save_s", f.model.stall},
                       {"write_s", f.model.write},
                       {"restart_s", f.model.restart},
                       {"save_every_steps", f.every},
                       {"save_every_s", f.interval_s},
                       {"goodput", f.goodput}};
  if (const auto with = training_with_failures(plan)) {
    json["days"] = with->training.days;
    json["device_hours"] = with->training.device_hours;
    if (with->training.usd > 0) json["usd"] = with->training.usd;
    json["failures"] = with->failures;
  }
  return json;
}

ordered_json training_json(const Plan& plan) {
  const Training t = training_of(plan);
  ordered_json json = {{"tokens", plan.tokens},
                       {"steps", t.steps},
                       {"days", t.days},
                       {"device_hours", t.device_hours}};
  if (t.usd > 0) json["usd"] = t.usd;
  if (plan.failures) json["with_failures"] = failures_json(plan);
  return json;
}

void add_step(const Plan& plan, ordered_json& json) {
  const Estimate& e = plan.step->estimate;
  json["time"] = time_json(e.time);
  json["links"] = links_json(*plan.step);
  json["rates"] = rates_json(e);
  if (plan.tokens > 0) json["training"] = training_json(plan);
}

ordered_json change_json(const FitChange& change) {
  return {
      {"settings", change.settings}, {"peak_bytes", change.peak_bytes}, {"step_s", change.step_s}};
}

void add_advice(const Plan& plan, const FitAdvice& advice, ordered_json& json) {
  json["changes"] = ordered_json::array();
  for (const FitChange& change : advice.changes) json["changes"].push_back(change_json(change));
  if (advice.nearest) {
    json["nearest_change"] = change_json(*advice.nearest);
    json["nearest_change"]["bytes_over"] = advice.nearest->peak_bytes - plan.limit_bytes;
  }
  if (advice.on_devices) {
    json["more_devices"] = change_json(*advice.on_devices);
    json["more_devices"]["devices"] = advice.devices;
  }
  if (!advice.assumed_cluster.empty()) json["changes_priced_on"] = advice.assumed_cluster;
}

ordered_json json_with_ranks(const Plan& plan, bool ranks) {
  ordered_json json = document_head("plan", plan.mesh, plan.num_parameters);
  json["source"] = name_of(plan.source);
  json["dtype"] = plan.spec.train.dtype_name();
  if (plan.spec.train.fp8.on()) json["fp8_recipe"] = name_of(plan.spec.train.fp8.recipe);
  if (plan.products == BlockProducts::kFp8) {
    json["block_products"] = "fp8";
    const std::string why = why_not_fp8(plan.spec);
    json["trainable"] = why.empty();
    if (!why.empty()) json["why_not_trainable"] = why;
  }
  json["device"] = name_of(plan.spec.train.device);
  json["threads"] = plan.spec.train.threads;
  if (plan.step) json["engine"] = plan.step->engine;
  if (plan.step) json["cluster"] = cluster_json(plan.step->cluster, plan.step->cluster_devices);
  json["fits"] = plan.fits();
  json["peak_bytes"] = plan.peak_bytes();
  json["peak_gb"] = gigabytes_of(plan.peak_bytes());
  json["limit_bytes"] = plan.limit_bytes;
  json["limit_gb"] = gigabytes_of(plan.limit_bytes);
  json["limit_of"] = plan.limit_of;
  json["reserved_bytes"] = plan.reserved_bytes;
  json["classes"] = ordered_json::array();
  for (const PlannedClass& one : plan.classes) json["classes"].push_back(class_json(plan, one));
  json["ranks"] = ordered_json::array();
  if (ranks) {
    for (const PlannedRank& rank : plan.ranks) json["ranks"].push_back(rank_json(plan.mesh, rank));
  }
  if (plan.step) add_step(plan, json);
  json["guesses"] = guesses_json(plan.guesses);
  if (plan.advice) add_advice(plan, *plan.advice, json);
  return json;
}

}  // namespace

double gigabytes_of(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

ordered_json document_head(std::string_view kind, const Mesh& mesh, int64_t num_parameters) {
  ordered_json json;
  json["schema_version"] = kPlanSchemaVersion;
  json["kind"] = kind;
  json["world"] = mesh.world();
  for (const Axis axis : reported_axes(mesh)) {
    json["mesh"][std::string(name_of(axis))] = mesh.size(axis);
  }
  json["parameters"] = num_parameters;
  return json;
}

ordered_json cluster_json(const Cluster& cluster, int64_t devices_in_all) {
  return {{"name", cluster.name},
          {"device", cluster.device.name},
          {"devices", cluster.devices},
          {"devices_in_all", devices_in_all}};
}

ordered_json time_json(const StepTime& time) {
  ordered_json json = {{"step_s", time.step_s},           {"compute_s", time.compute_s},
                       {"forward_s", time.forward_s},     {"backward_s", time.backward_s()},
                       {"recompute_s", time.recompute_s}, {"bubble_s", time.bubble_s},
                       {"optimizer_s", time.optimizer_s}};
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    json["exposed_s"][std::string(name_of(static_cast<CommAxis>(axis)))] =
        time.exposed_s[static_cast<size_t>(axis)];
  }
  return json;
}

ordered_json rates_json(const Estimate& estimate) {
  return {{"tokens_per_s", estimate.tokens_per_s},
          {"tflops_per_device", estimate.flops_per_device_s / 1e12},
          {"mfu", estimate.mfu},
          {"hfu", estimate.hfu},
          {"model_flops", estimate.model_flops},
          {"hardware_flops", estimate.hardware_flops}};
}

ordered_json guesses_json(const std::vector<Guess>& guesses) {
  ordered_json json = ordered_json::array();
  for (const Guess& guess : guesses) {
    json.push_back({{"what", guess.what}, {"taken", guess.taken}});
  }
  return json;
}

ordered_json rank_json(const Mesh& mesh, const PlannedRank& rank) {
  ordered_json json;
  json["rank"] = rank.rank;
  for (const Axis axis : reported_axes(mesh)) {
    json["coords"][std::string(name_of(axis))] = mesh.coord(rank.rank, axis);
  }
  json["memory_bytes"] = memory_json(rank.memory);
  json["traffic"] = traffic_json(rank.traffic);
  if (rank.digest.empty()) return json;
  json["instructions"] = rank.instructions;
  json["digest"] = rank.digest;
  return json;
}

ordered_json plan_json(const Plan& plan) {
  ordered_json json = json_with_ranks(plan, plan.mesh.world() <= kMostListedRanks);
  json["why"] = ordered_json::array();
  for (const PlanReason& reason : reasons_of(plan)) {
    json["why"].push_back({{"title", reason.title}, {"text", reason.text}});
  }
  return json;
}

ordered_json full_plan_json(const Plan& plan) { return json_with_ranks(plan, true); }

}  // namespace tessera

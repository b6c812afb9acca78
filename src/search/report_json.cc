#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/units.h"
#include "plan/report/plan_json.h"
#include "search/deadline_report.h"
#include "search/report.h"

namespace tessera {
namespace {

nlohmann::ordered_json strategy_json(const Strategy& s) {
  nlohmann::ordered_json json = {{"tp", s.tp},
                                 {"pp", s.pp},
                                 {"dp", s.dp},
                                 {"cp", s.cp},
                                 {"cp_kind", name_of(s.context)},
                                 {"ep", s.ep},
                                 {"expert_tp", s.expert_tp},
                                 {"sequence_parallel", s.sequence_parallel},
                                 {"rank_order", name_of(s.order)},
                                 {"schedule", name_of(s.schedule)},
                                 {"virtual_stages", s.virtual_stages},
                                 {"stage_layers", s.stage_layers},
                                 {"micro_batch", s.micro_batch},
                                 {"zero", s.zero},
                                 {"shard", s.shard},
                                 {"release_after_forward", s.release_after_forward},
                                 {"recompute", name_of(s.recompute)},
                                 {"recompute_layers", s.recompute_layers},
                                 {"stage_recompute", s.stage_recompute}};
  return json;
}

nlohmann::ordered_json strategy_json(const SimulatedStrategy& plan) {
  return {{"strategy", strategy_json(plan.strategy)},   {"peak_bytes", plan.peak_bytes()},
          {"peak_gb", gigabytes_of(plan.peak_bytes())}, {"time", time_json(plan.estimate.time)},
          {"rates", rates_json(plan.estimate)},         {"closed_form_s", plan.closed_form_s}};
}

nlohmann::ordered_json ranked_json(const RankedStrategy& ranked) {
  nlohmann::ordered_json json = strategy_json(ranked.plan);
  json["number"] = ranked.number;
  json["why"] = ranked.why;
  json["engine_lacks"] = ranked.file.lacks;
  if (ranked.file.peak_bytes > 0) json["engine_peak_bytes"] = ranked.file.peak_bytes;
  json["plan_flags"] = ranked.file.plan_flags;
  if (ranked.file.plan_step_s > 0) json["plan_step_s"] = ranked.file.plan_step_s;
  return json;
}

}  // namespace

nlohmann::ordered_json to_json(const SearchReport& report) {
  const SearchOutcome& o = report.outcome;
  nlohmann::ordered_json json = {{"schema_version", kPlanSchemaVersion},
                                 {"kind", "search"},
                                 {"model", report.model.preset},
                                 {"cluster", report.workload.cluster.name},
                                 {"devices", report.workload.cluster.devices},
                                 {"seq_len", report.workload.seq_len},
                                 {"global_batch", report.workload.global_batch},
                                 {"objective", name_of(report.objective)},
                                 {"memory_limit_bytes", report.limit_bytes},
                                 {"memory_limit_gb", gigabytes_of(report.limit_bytes)},
                                 {"splits", o.splits},
                                 {"groups", o.groups},
                                 {"groups_done", o.groups_done},
                                 {"configurations", o.configurations},
                                 {"priced", o.priced},
                                 {"simulated", report.simulated},
                                 {"stopped", o.stopped}};
  json["plans"] = nlohmann::ordered_json::array();
  for (const RankedStrategy& ranked : report.plans) json["plans"].push_back(ranked_json(ranked));
  if (report.runnable.has_value()) json["best_runnable"] = ranked_json(*report.runnable);
  json["runnable_with"] = report.to_run;
  json["pareto"] = nlohmann::ordered_json::array();
  for (const SimulatedStrategy& plan : report.front) json["pareto"].push_back(strategy_json(plan));
  if (!report.counts.empty()) {
    const Constant& price = report.workload.cluster.usd_per_device_hour;
    json["usd_per_device_hour"] = {{"value", price.value}, {"source", price.source}};
    json["costs"] = nlohmann::ordered_json::array();
    for (const DeviceCount& count : report.counts) {
      json["costs"].push_back({{"devices", count.devices},
                               {"step_s", count.step_s},
                               {"device_seconds", count.device_seconds()},
                               {"usd", count.device_seconds() / 3600 * price.value}});
    }
  }
  json["sensitivity"] = nlohmann::ordered_json::array();
  for (const Sensitivity& s : report.sensitivities) {
    json["sensitivity"].push_back(
        {{"change", s.change}, {"step_change_pct", s.change_pct}, {"moves", s.moves}});
  }
  json["rejected"] = nlohmann::ordered_json::array();
  for (const SplitRejection& r : o.splits_rejected) {
    json["rejected"].push_back({{"reason", r.reason}, {"splits", r.splits}});
  }
  for (size_t i = 0; i < kNumRejected; ++i) {
    json["rejected"].push_back(
        {{"reason", reason_of(static_cast<Rejected>(i))}, {"configurations", o.rejected[i]}});
  }
  if (o.nearest.has_value()) {
    json["nearest"] = {{"strategy", strategy_json(o.nearest->strategy)},
                       {"peak_bytes", o.nearest->peak_bytes}};
  }
  json["remedies"] = report.remedies;
  if (report.deadline.has_value()) json["deadline"] = deadline_json(*report.deadline);
  return json;
}

}  // namespace tessera

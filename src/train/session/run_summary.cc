#include "train/session/run_summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "plan/report/plan_json.h"
#include "train/control.h"
#include "train/report/comm_report.h"
#include "train/report/measure.h"
#include "train/session/system_memory.h"

namespace tessera {
namespace {

nlohmann::ordered_json report_of_rank(const RunTotals& totals, const Executor& executor) {
  const int64_t timed_steps = std::max<int64_t>(1, totals.steps - totals.before - 1);
  return {{"rank", measured_rank_json(executor, std::max<int64_t>(1, totals.steps - totals.before +
                                                                         totals.eval_passes))},
          {"peak_resident_bytes", peak_resident_bytes()},
          {"gpu_free_before", totals.gpu_free_before},
          {"gpu_free_after", totals.gpu_free_after},
          {"staging_bytes", totals.staging_bytes},
          {"compute_ms", totals.compute.ms_per_step(exposed_seconds(executor.comm_times()))},
          {"comm_times", comm_times_json(executor.comm_times(), timed_steps)}};
}

double tokens_per_second(const RunTotals& totals, const RunSpec& spec) {
  const auto tokens = static_cast<double>(spec.train.global_batch * spec.train.seq_len);
  const double trained = totals.seconds - totals.eval_seconds - totals.save_seconds;
  const int64_t steps = totals.steps - totals.before;
  if (steps <= 0) return 0;
  if (steps == 1) return tokens / std::max(1e-9, trained);
  return tokens * static_cast<double>(steps - 1) / std::max(1e-9, trained - totals.warm_seconds);
}

}  // namespace

nlohmann::ordered_json run_summary(const RunTotals& totals, const TrainJob& job,
                                   const Executor& executor, const CommWorld& world,
                                   Communicator& control) {
  const RunSpec& spec = job.step.spec;
  control.barrier();  // what a rank has sent is counted when its last peer has it
  nlohmann::ordered_json json = document_head("run", job.step.mesh, job.step.layout.num_parameters);
  std::vector<SystemMemory> memory;
  std::vector<nlohmann::ordered_json> comm_times;
  std::vector<double> compute_ms;
  nlohmann::ordered_json staging = nlohmann::ordered_json::array();
  for (const std::string& text : exchange_texts(control, report_of_rank(totals, executor).dump())) {
    const auto report = nlohmann::ordered_json::parse(text);
    json["ranks"].push_back(report.at("rank"));
    memory.push_back({report.at("peak_resident_bytes").get<int64_t>(),
                      report.at("gpu_free_before").get<int64_t>(),
                      report.at("gpu_free_after").get<int64_t>()});
    staging.push_back(report.at("staging_bytes"));
    comm_times.push_back(report.at("comm_times"));
    compute_ms.push_back(report.at("compute_ms").get<double>());
  }
  json["backend"] = world.backend();
  if (const auto graph = executor.graph_text()) json["cuda_graph"] = *graph;
  json["steps"] = totals.steps;
  json["final_loss"] = totals.final_loss;
  add_losses(totals.evaluation, json);
  json["seconds"] = totals.seconds;
  if (totals.before > 0) json["resumed_after"] = totals.before;
  if (totals.saves > 0) {
    json["checkpoints"] = {{"saves", totals.saves}, {"seconds", totals.save_seconds}};
    if (totals.snapshots > 0) json["checkpoints"]["snapshots"] = totals.snapshots;
    json["checkpoints"]["staging_bytes"] = staging;
  }
  json["tokens_per_s"] = tokens_per_second(totals, spec);
  add_system_memory(memory, world.backend() == "local", json);
  json["communication_time"] = merge_comm_times(comm_times);
  // The host of a GPU does not see when its kernels wait.
  if (spec.train.device != TrainDevice::kCuda) add_compute_times(job.step.mesh, compute_ms, json);
  if (totals.max_seconds > 0) {
    json["out_of_time"] = {{"max_minutes", totals.max_seconds / 60},
                           {"planned_steps", spec.train.steps}};
  }
  return json;
}

}  // namespace tessera

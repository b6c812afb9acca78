#include "train/verify/verify.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "comm/shm/host_memory.h"
#include "plan/report/plan_json.h"
#include "spec/catalogue/model_size.h"
#include "spec/entry.h"
#include "spec/keys.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/validate.h"
#include "train/machine_defaults.h"
#include "train/report/measure.h"
#include "train/samples/run_sets.h"
#include "train/session/loss_scale.h"
#include "train/session/step_params.h"
#include "train/verify/difference.h"

namespace tessera {
namespace {

// Whether the number of stages of a rank does not follow from the schedule.
bool chooses_stages(const ParallelSpec& parallel) {
  const std::optional<PipelineKind> kind = parallel.schedule.kind();
  return kind && schedule_kind(*kind).any_virtual_stages;
}

// Every key of [parallel] that differs from its default, as --mesh takes them.
std::string mesh_text(const ParallelSpec& parallel) {
  RunSpec spec;
  spec.parallel = parallel;
  RunSpec plain;
  std::string text;
  for (const Key& key : run_keys()) {
    if (key.section != "parallel") continue;
    const nlohmann::ordered_json value = value_of(key.field(spec));
    if (value == value_of(key.field(plain)) && key.name != "zero") continue;
    // Resolved from the others.
    if (key.name == "grad_reduce" || key.name == "schedule_csv") continue;
    if (key.name == "virtual_stages" && !chooses_stages(parallel)) continue;
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", key.name, shown);
  }
  return text;
}

struct TensorReport {
  std::string name;
  double gradient = 0;
  double weight = 0;
};

struct Finding {
  int64_t step = 0;
  std::string kind;
  Difference difference;
};

// NaN counts as the largest.
void keep_worst(double& worst, double value) {
  if (!(value <= worst)) worst = value;
}

std::string render(const VerifyOptions& options, const std::vector<TensorReport>& tensors,
                   const std::optional<Finding>& first, int64_t above) {
  TextTable table(
      {{"tensor", Align::kLeft}, {"gradient", Align::kRight}, {"weight", Align::kRight}});
  for (const TensorReport& t : tensors) {
    table.add_row({t.name, fmt::format("{:.2e}", t.gradient), fmt::format("{:.2e}", t.weight)});
  }
  std::string text =
      fmt::format("largest relative difference over {} steps, {} against {}\n\n{}\n", options.steps,
                  mesh_text(options.right.parallel), mesh_text(options.left.parallel), table.str());
  if (!first.has_value()) {
    return text + fmt::format("equal: nothing differs by more than {:g}\n", options.tolerance);
  }
  return text + fmt::format(
                    "DIFFERENT: first the {} of '{}' at step {}, by {:.2e} (tolerance {:g}); "
                    "{} tensors differ\n",
                    first->kind, first->difference.name, first->step, first->difference.relative,
                    options.tolerance, above);
}

// Every gradient and weight of every step is kept in f64, of both runs.
void require_room_for_records(const VerifyOptions& options) {
  const double bytes = 2.0 * 2.0 * sizeof(double) * static_cast<double>(options.steps) *
                       static_cast<double>(model_size(options.left.model).total);
  const int64_t available = host_memory().available_bytes;
  if (bytes <= static_cast<double>(available)) return;
  throw Error(
      fmt::format("does not fit: gradients and weights of {} on both meshes take {:.3g} GiB in "
                  "f64, and {} are free on this machine; use fewer --steps or a smaller model",
                  count_of(options.steps, "step"), bytes / kGibibyte, human_bytes(available)),
      ExitCode::kDoesNotFit);
}

}  // namespace

std::vector<StepRecord> record_run(const ShortRun& run) { return record_and_measure(run).steps; }

MeasuredRun record_and_measure(const ShortRun& run) {
  RunSpec spec = run.spec;
  if (spec.train.threads == 0) spec.train.threads = 1;
  CompiledRun compiled = compile_here(spec);
  MeasuredRun result;
  result.plan = full_plan_json(plan_of(compiled));
  inject_into_programs(run.inject, compiled.programs);
  if (run.edit_programs) run.edit_programs(compiled.programs);
  TensorSource weights = run.weights;
  if (!weights) {
    weights = spec.model.hf.empty() ? initial_weights(spec.model, spec.train.seed)
                                    : hf_weights(spec.model.hf, compiled.step.layout);
  }
  World world(std::move(compiled.step), std::move(compiled.programs));
  world.run([&](int rank, Executor& executor) {
    load_weights(executor, world.step(), inject_into_weights(run.inject, rank, weights));
  });
  LossScaler scaler(spec.train);
  for (int64_t s = 1; s <= run.steps; ++s) {
    StepParams params = step_params(spec, s);
    scaler.apply_to(params);
    if (run.constant_lr) params.lr = spec.optimizer.lr;
    StepOutcome outcome;
    world.run([&](int rank, Executor& executor) {
      fill_inputs(executor, spec, s, run.samples, run.starts);
      executor.set_probe(injection_probe(run.inject, executor, s));
      const StepOutcome mine = executor.run(params);
      if (rank == 0) outcome = mine;
    });
    StepRecord record{outcome.loss, outcome.grad_norm, gather_state(world, StateKind::kGradients),
                      gather_state(world, StateKind::kWeights)};
    for (LogicalValues& gradient : record.gradients) {
      for (double& g : gradient.values)
        g /= std::max(1.0, outcome.update_tokens) * params.loss_scale;
    }
    if (outcome.finite()) {
      scaler.after_update();
    } else {
      scaler.after_overflow();
    }
    result.steps.push_back(std::move(record));
  }
  result.measured = document_head("run", world.step().mesh, world.step().layout.num_parameters);
  for (int rank = 0; rank < world.size(); ++rank) {
    result.measured["ranks"].push_back(measured_rank_json(world.executor(rank), run.steps));
  }
  return result;
}

VerifyReport verify_meshes(const VerifyOptions& options) {
  require_room_for_records(options);
  const Samples samples = training_samples(options.left);
  ShortRun left{.spec = with_end_token(options.left),
                .steps = options.steps,
                .samples = samples.fill,
                .starts = samples.starts};
  ShortRun right{.spec = with_end_token(options.right),
                 .steps = options.steps,
                 .samples = samples.fill,
                 .inject = options.inject,
                 .starts = samples.starts};
  if (left.spec.parallel.grad_reduce != right.spec.parallel.grad_reduce) {
    left.spec.parallel.grad_reduce = right.spec.parallel.grad_reduce = GradReduce::kMicroBatch;
  }
  const std::vector<StepRecord> a = record_run(left);
  const std::vector<StepRecord> b = record_run(right);

  std::vector<TensorReport> tensors;
  for (const LogicalValues& values : a.front().gradients)
    tensors.push_back({values.tensor.name, 0, 0});
  std::optional<Finding> first;
  for (size_t s = 0; s < a.size(); ++s) {
    const auto compare = [&](const char* kind, double TensorReport::*worst,
                             std::span<const LogicalValues> mine,
                             std::span<const LogicalValues> reference) {
      const std::vector<Difference> list = differences(mine, reference);
      for (size_t i = 0; i < list.size(); ++i) {
        keep_worst(tensors[i].*worst, list[i].relative);
        if (!first.has_value() && exceeds(list[i].relative, options.tolerance)) {
          first = {static_cast<int64_t>(s) + 1, kind, list[i]};
        }
      }
    };
    compare("gradient", &TensorReport::gradient, b[s].gradients, a[s].gradients);
    compare("updated weight", &TensorReport::weight, b[s].weights, a[s].weights);
  }
  int64_t above = 0;
  VerifyReport report;
  report.json["schema_version"] = kVerifySchemaVersion;
  report.json["kind"] = "verification";
  report.json["equal"] = !first.has_value();
  report.json["tolerance"] = options.tolerance;
  report.json["steps"] = options.steps;
  report.json["dtype"] = std::string(name_of(options.right.train.dtype));
  report.json["reference"] = mesh_text(options.left.parallel);
  report.json["mesh"] = mesh_text(options.right.parallel);
  report.json["tensors"] = nlohmann::ordered_json::array();
  double worst_gradient = 0;
  double worst_weight = 0;
  for (const TensorReport& t : tensors) {
    report.json["tensors"].push_back(
        {{"name", t.name}, {"gradient", t.gradient}, {"weight", t.weight}});
    keep_worst(worst_gradient, t.gradient);
    keep_worst(worst_weight, t.weight);
    if (exceeds(t.gradient, options.tolerance) || exceeds(t.weight, options.tolerance)) ++above;
  }
  report.json["largest"] = {{"gradient", worst_gradient}, {"weight", worst_weight}};
  if (first.has_value()) {
    report.json["first_difference"] = {{"step", first->step},
                                       {"kind", first->kind},
                                       {"tensor", first->difference.name},
                                       {"difference", first->difference.relative}};
  }
  report.equal = !first.has_value();
  report.text = render(options, tensors, first, above);
  return report;
}

}  // namespace tessera

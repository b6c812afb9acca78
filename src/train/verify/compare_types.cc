#include "train/verify/compare_types.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"
#include "spec/run_file/validate.h"
#include "train/machine_defaults.h"
#include "train/report/measure.h"
#include "train/samples/run_sets.h"
#include "train/session/loss_scale.h"
#include "train/session/step_params.h"
#include "train/verify/float8_losses.h"

namespace tessera {
namespace {

struct Point {
  double loss = 0, grad_norm = 0;
};

std::vector<Point> curve(RunSpec spec, const Samples& samples, int64_t steps,
                         Float8LossMeter& meter) {
  if (spec.train.threads == 0) spec.train.threads = 1;
  CompiledRun compiled = compile_here(spec);
  const TensorSource weights = spec.model.hf.empty()
                                   ? initial_weights(spec.model, spec.train.seed)
                                   : hf_weights(spec.model.hf, compiled.step.layout);
  World world(std::move(compiled.step), std::move(compiled.programs));
  world.run([&](int, Executor& executor) { load_weights(executor, world.step(), weights); });
  LossScaler scaler(spec.train);
  std::vector<Point> points;
  for (int64_t s = 1; s <= steps; ++s) {
    StepParams params = step_params(spec, s);
    scaler.apply_to(params);
    StepOutcome outcome;
    world.run([&](int rank, Executor& executor) {
      fill_inputs(executor, spec, s, samples.fill, samples.starts);
      if (spec.train.fp8.on()) meter.watch(executor, s);
      const StepOutcome mine = executor.run(params);
      if (rank == 0) outcome = mine;
    });
    outcome.finite() ? scaler.after_update() : scaler.after_overflow();
    points.push_back({outcome.loss, outcome.grad_norm});
  }
  return points;
}

double mean_of_last(const std::vector<Point>& points) {
  const size_t count = std::max<size_t>(1, points.size() / 10);
  double sum = 0;
  for (size_t i = points.size() - count; i < points.size(); ++i) sum += points[i].loss;
  return sum / static_cast<double>(count);
}

double relative(double mine, double other) { return (mine - other) / std::abs(other); }

// NaN is beyond every tolerance.
bool within(double difference, double tolerance) { return std::abs(difference) <= tolerance; }

std::string type_text(const TrainSpec& train) {
  if (!train.fp8.on()) return std::string(train.dtype_name());
  return fmt::format("{} ({})", train.dtype_name(), name_of(train.fp8.recipe));
}

// All of a few steps, some of many, and the last.
std::string table_of(const TypesOptions& options, const std::vector<Point>& mine,
                     const std::vector<Point>& other) {
  constexpr size_t kMostRows = 20;
  const std::string a(options.mine.train.dtype_name()), b(options.other.train.dtype_name());
  TextTable table({{"step", Align::kRight},
                   {"loss " + a, Align::kRight},
                   {b, Align::kRight},
                   {"difference", Align::kRight},
                   {"norm " + a, Align::kRight},
                   {b, Align::kRight},
                   {"difference", Align::kRight}});
  const size_t every = (mine.size() + kMostRows - 1) / kMostRows;
  for (size_t i = 0; i < mine.size(); ++i) {
    if ((i + 1) % every != 0 && i > 0 && i + 1 < mine.size()) continue;
    const auto percent = [](double x, double y) {
      return fmt::format("{:+.3f} %", 100 * relative(x, y));
    };
    table.add_row({fmt::format("{}", i + 1), fmt::format("{:.4f}", mine[i].loss),
                   fmt::format("{:.4f}", other[i].loss), percent(mine[i].loss, other[i].loss),
                   fmt::format("{:.4f}", mine[i].grad_norm),
                   fmt::format("{:.4f}", other[i].grad_norm),
                   percent(mine[i].grad_norm, other[i].grad_norm)});
  }
  return table.str();
}

}  // namespace

void compute_in(RunSpec& spec, std::string_view name) {
  Fp8Spec& fp8 = spec.train.fp8;
  fp8.asked = name == "fp8";
  if (fp8.asked) {
    spec.train.dtype = DType::kBF16;
  } else {
    fp8 = {};
    for (const DType type : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
      if (name == name_of(type)) spec.train.dtype = type;
    }
  }
  resolve(spec);
}

VerifyReport compare_types(const TypesOptions& options) {
  const Samples samples = training_samples(options.mine);
  Float8LossMeter losses;
  const std::vector<Point> mine =
      curve(with_end_token(options.mine), samples, options.steps, losses);
  const std::vector<Point> other =
      curve(with_end_token(options.other), samples, options.steps, losses);
  const double difference = relative(mean_of_last(mine), mean_of_last(other));
  VerifyReport report;
  report.equal = within(difference, options.tolerance);
  report.json["schema_version"] = kVerifySchemaVersion;
  report.json["kind"] = "types";
  report.json["equal"] = report.equal;
  report.json["tolerance"] = options.tolerance;
  report.json["dtype"] = options.mine.train.dtype_name();
  report.json["against"] = options.other.train.dtype_name();
  if (options.mine.train.fp8.on()) {
    report.json["fp8_recipe"] = name_of(options.mine.train.fp8.recipe);
  }
  report.json["loss_difference"] = difference;
  report.json["steps"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < mine.size(); ++i) {
    report.json["steps"].push_back({{"step", i + 1},
                                    {"loss", {mine[i].loss, other[i].loss}},
                                    {"grad_norm", {mine[i].grad_norm, other[i].grad_norm}}});
  }
  if (!losses.by_tensor().empty()) report.json["quantised"] = losses.json();
  report.text = fmt::format(
      "{} against {}, {}\n\n{}\n{}{}: the mean loss of the last {} differs by {:+.3f} % "
      "(tolerance {:g} %)\n",
      type_text(options.mine.train), type_text(options.other.train),
      count_of(options.steps, "step"), table_of(options, mine, other),
      losses.by_tensor().empty() ? "" : losses.text(), report.equal ? "equal" : "DIFFERENT",
      count_of(std::max<int64_t>(1, options.steps / 10), "step"), 100 * difference,
      100 * options.tolerance);
  return report;
}

}  // namespace tessera

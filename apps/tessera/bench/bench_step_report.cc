#include "bench/bench_step_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/text/text.h"
#include "compile/model/model_flops.h"
#include "compile/program/memory_parts.h"

namespace tessera {
namespace {

// Matrix units without sparsity, as their makers give them.
struct KnownGpu {
  std::string_view name;
  double bf16_tflops;
};
constexpr std::array kKnownGpus = {KnownGpu{"NVIDIA H200", 989},
                                   KnownGpu{"NVIDIA H100 80GB HBM3", 989}};

// Ranks are threads: on a GPU they share it, on the CPU each has its own.
double devices_of(const StepReport& report) {
  return report.run.step.spec.train.device == TrainDevice::kCuda
             ? 1
             : static_cast<double>(report.run.step.mesh.world());
}

double tokens_of(const StepReport& report) {
  const TrainSpec& train = report.run.step.spec.train;
  return static_cast<double>(train.global_batch * train.seq_len);
}

// Share of the peak that `flops` in a step are.
double utilization(const StepReport& report, double flops) {
  return flops / report.result.median_s() / (report.peak.flops_per_s * devices_of(report));
}

std::string ms(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }

void add_to(ClassRow& row, const InstructionCost& cost, double seconds, const DeviceRates& rates) {
  const auto flops = static_cast<double>(cost.flops);
  const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
  ++row.instructions;
  row.seconds += seconds;
  row.flops += flops;
  row.bytes += bytes;
  row.floor_s += std::max(flops / rates.flops_per_s, bytes / rates.bytes_per_s);
}

std::string kind_of(const Program& program, const Instruction& instruction) {
  std::string text(is_communication(instruction.op) ? communication_name(instruction)
                                                    : name_of(instruction.op));
  const auto add = [&](const std::vector<BufferId>& operands) {
    for (const BufferId id : operands) {
      text += fmt::format(" {}", fmt::join(program.buffer(id).shape, "x"));
    }
  };
  add(instruction.inputs);
  text += " >";
  add(instruction.outputs);
  return text + (instruction.accumulate ? " +=" : "");
}

std::string rate_of(const ClassRow& row) {
  if (row.seconds <= 0) return "-";
  if (row.flops > 0) return fmt::format("{:.4g} TFLOP/s", row.flops / row.seconds / 1e12);
  return fmt::format("{:.4g} GB/s", row.bytes / row.seconds / 1e9);
}

std::string class_table(const StepReport& report, const std::vector<ClassRow>& rows) {
  TextTable table({{"class"},
                   {"ms", Align::kRight},
                   {"share", Align::kRight},
                   {"GFLOP", Align::kRight},
                   {"GB", Align::kRight},
                   {"achieved", Align::kRight},
                   {"floor ms", Align::kRight},
                   {"of floor", Align::kRight}});
  ClassRow sum;
  for (const ClassRow& row : rows) {
    const bool moves = row.op_class == OpClass::kCommunication;  // its floor is a network's
    table.add_row({std::string(name_of(row.op_class)), ms(row.seconds),
                   percent_text(row.seconds, report.result.probed_step_s),
                   fmt::format("{:.1f}", row.flops / 1e9), fmt::format("{:.2f}", row.bytes / 1e9),
                   rate_of(row), moves ? "-" : ms(row.floor_s),
                   moves ? "-" : fmt::format("{:.2f}", row.seconds / row.floor_s)});
    if (moves) continue;
    sum.seconds += row.seconds;
    sum.flops += row.flops;
    sum.bytes += row.bytes;
    sum.floor_s += row.floor_s;
  }
  table.add_rule();
  table.add_row({"kernels", ms(sum.seconds), percent_text(sum.seconds, report.result.probed_step_s),
                 fmt::format("{:.1f}", sum.flops / 1e9), fmt::format("{:.2f}", sum.bytes / 1e9), "",
                 ms(sum.floor_s), fmt::format("{:.2f}", sum.seconds / sum.floor_s)});
  return table.str();
}

std::string memory_table(const StepReport& report) {
  TextTable table({{"memory of rank 0"}, {"planned", Align::kRight}, {"measured", Align::kRight}});
  const Program& program = report.run.programs.front();
  const auto planned_parts = memory_parts(program);
  const auto measured_parts = memory_parts(program, report.result.arena_bytes);
  int64_t measured = 0;
  for (const ArenaKind arena : kTrainingArenas) {
    const auto i = static_cast<size_t>(arena);
    measured += measured_parts[i];
    table.add_row({std::string(name_of(arena)), with_thousands(planned_parts[i]),
                   with_thousands(measured_parts[i])});
  }
  table.add_rule();
  table.add_row({"total", with_thousands(program.total_bytes()), with_thousands(measured)});
  return table.str();
}

std::string memory_text(const StepReport& report) {
  if (report.result.device_bytes > 0) {
    return fmt::format("taken from the GPU, as its driver says: {} with the libraries\n",
                       human_bytes(report.result.device_bytes));
  }
  return fmt::format("resident at most, whole process: {}\n",
                     human_bytes(report.result.resident_bytes));
}

}  // namespace

Peak choose_peak(double tflops, const std::string& gpu_name, DType dtype,
                 const DeviceRates& rates) {
  if (tflops > 0) return {tflops * 1e12, "--peak"};
  const bool matrix_units = dtype == DType::kBF16 || dtype == DType::kF16;
  for (const KnownGpu& known : kKnownGpus) {
    if (matrix_units && gpu_name == known.name) {
      return {known.bf16_tflops * 1e12, fmt::format("{}, {}", gpu_name, name_of(dtype))};
    }
  }
  return {rates.flops_per_s, "measured by a large product"};
}

std::vector<ClassRow> class_rows(const Program& program, const std::vector<double>& instruction_s,
                                 const DeviceRates& rates) {
  std::array<ClassRow, kNumOpClasses> sums;
  for (size_t i = 0; i < instruction_s.size(); ++i) {
    const InstructionCost cost = cost_of(program, program.instructions[i]);
    add_to(sums[static_cast<size_t>(cost.op_class)], cost, instruction_s[i], rates);
  }
  std::vector<ClassRow> rows;
  for (const OpClass op_class : kAllOpClasses) {
    ClassRow& row = sums[static_cast<size_t>(op_class)];
    row.op_class = op_class;
    if (row.instructions > 0) rows.push_back(row);
  }
  return rows;
}

std::vector<KindRow> kind_rows(const Program& program, const std::vector<double>& instruction_s,
                               const DeviceRates& rates) {
  std::map<std::string, ClassRow> sums;
  for (size_t i = 0; i < instruction_s.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const InstructionCost cost = cost_of(program, instruction);
    ClassRow& row = sums[kind_of(program, instruction)];
    row.op_class = cost.op_class;
    add_to(row, cost, instruction_s[i], rates);
  }
  std::vector<KindRow> rows;
  for (const auto& [kind, row] : sums) rows.push_back({kind, row});
  std::stable_sort(rows.begin(), rows.end(), [](const KindRow& a, const KindRow& b) {
    return a.sums.seconds > b.sums.seconds;
  });
  return rows;
}

double recomputed_flops(const std::vector<Program>& programs) {
  double flops = 0;
  for (const Program& program : programs) {
    for (const Instruction& i : program.instructions) {
      if (i.tag.pass == Pass::kRecompute) flops += static_cast<double>(cost_of(program, i).flops);
    }
  }
  return flops;
}

std::string step_text(const StepReport& report) {
  const RunSpec& spec = report.run.step.spec;
  const StepBenchResult& result = report.result;
  const double step_s = result.median_s();
  const auto [fastest, slowest] = std::minmax_element(result.step_s.begin(), result.step_s.end());
  const double flops = model_flops(spec).total();
  const double again = recomputed_flops(report.run.programs);
  std::string text = fmt::format("device    {}, {}, {} {}\n", report.device,
                                 name_of(spec.train.dtype), report.run.step.mesh.world(),
                                 report.run.step.mesh.world() == 1 ? "rank" : "ranks");
  text += fmt::format("step      {} ms, median of {} ({} to {})\n", ms(step_s),
                      result.step_s.size(), ms(*fastest), ms(*slowest));
  text += fmt::format("tokens/s  {}\n",
                      with_thousands(static_cast<int64_t>(tokens_of(report) / step_s)));
  text += fmt::format("FLOPs     {:.4g} T a step = {}\n", flops / 1e12, model_flops_text(spec));
  text +=
      fmt::format("MFU       {:.1f} % of {:.4g} TFLOP/s ({})\n", 100 * utilization(report, flops),
                  report.peak.flops_per_s * devices_of(report) / 1e12, report.peak.source);
  if (again > 0) {
    text += fmt::format("HFU       {:.1f} %: with the {:.4g} TFLOP that are computed again\n",
                        100 * utilization(report, flops + again), again / 1e12);
  }
  if (spec.train.device == TrainDevice::kCuda) text += fmt::format("graph     {}\n", result.graph);
  for (const std::string& note : result.notes) text += fmt::format("note      {}\n", note);
  text +=
      fmt::format("rates     {:.4g} TFLOP/s in a large product, {:.4g} GB/s in a large copy\n\n",
                  report.rates.flops_per_s / 1e12, report.rates.bytes_per_s / 1e9);
  if (!result.instruction_s.empty()) {
    text += class_table(
        report, class_rows(report.run.programs.front(), result.instruction_s, report.rates));
    text += fmt::format(
        "of rank 0, {} ms a step with every instruction timed; the floor is FLOPs and bytes at the "
        "rates above\n\n",
        ms(result.probed_step_s));
  }
  return text + memory_table(report) + memory_text(report);
}

nlohmann::ordered_json step_json(const StepReport& report) {
  const RunSpec& spec = report.run.step.spec;
  const StepBenchResult& result = report.result;
  const double step_s = result.median_s();
  const double flops = model_flops(spec).total();
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}, {"kind", "bench_step"}};
  json["device"] = report.device;
  json["dtype"] = name_of(spec.train.dtype);
  json["ranks"] = report.run.step.mesh.world();
  json["recompute"] = spec.parallel.recompute;
  json["steps"] = result.step_s.size();
  json["step_ms"] = step_s * 1e3;
  json["best_ms"] = *std::min_element(result.step_s.begin(), result.step_s.end()) * 1e3;
  json["tokens_per_s"] = tokens_of(report) / step_s;
  json["model_flops"] = flops;
  json["model_flops_formula"] = model_flops_text(spec);
  json["recomputed_flops"] = recomputed_flops(report.run.programs);
  json["peak_flops_per_s"] = report.peak.flops_per_s * devices_of(report);
  json["peak_source"] = report.peak.source;
  json["mfu"] = utilization(report, flops);
  json["hfu"] = utilization(report, flops + recomputed_flops(report.run.programs));
  json["product_flops_per_s"] = report.rates.flops_per_s;
  json["copy_bytes_per_s"] = report.rates.bytes_per_s;
  json["loss"] = result.loss;
  if (spec.train.device == TrainDevice::kCuda) json["graph"] = result.graph;
  nlohmann::ordered_json& memory = json["memory"];
  const auto planned = memory_parts(report.run.programs.front());
  const auto measured = memory_parts(report.run.programs.front(), result.arena_bytes);
  for (const ArenaKind arena : kTrainingArenas) {
    const auto i = static_cast<size_t>(arena);
    memory[std::string(name_of(arena))] = {{"planned", planned[i]}, {"measured", measured[i]}};
  }
  memory["planned_bytes"] = report.run.programs.front().total_bytes();
  memory["device_bytes"] = result.device_bytes;
  memory["resident_bytes"] = result.resident_bytes;
  json["probed_step_ms"] = result.probed_step_s * 1e3;
  const auto row_json = [](const ClassRow& row) -> nlohmann::ordered_json {
    return {{"class", name_of(row.op_class)},
            {"instructions", row.instructions},
            {"ms", row.seconds * 1e3},
            {"flops", row.flops},
            {"bytes", row.bytes},
            {"floor_ms", row.floor_s * 1e3}};
  };
  const Program& program = report.run.programs.front();
  json["classes"] = nlohmann::ordered_json::array();
  for (const ClassRow& row : class_rows(program, result.instruction_s, report.rates)) {
    json["classes"].push_back(row_json(row));
  }
  json["kinds"] = nlohmann::ordered_json::array();
  for (const KindRow& row : kind_rows(program, result.instruction_s, report.rates)) {
    json["kinds"].push_back(row_json(row.sums));
    json["kinds"].back()["kind"] = row.kind;
  }
  return json;
}

}  // namespace tessera

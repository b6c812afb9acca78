#include "cost/hardware/measured_machine.h"

#include <algorithm>

#include "base/error.h"
#include "cost/hardware/linear_fit.h"
#include "graph/op_table.h"

namespace tessera {
namespace {

double& at(TimeTerms& terms, TimeTerm term) { return terms[static_cast<size_t>(term)]; }

bool is_float(DType type) {
  return type == DType::kF64 || type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

// Both classes are bound by arithmetic.
bool multiplies(OpClass op_class) {
  return op_class == OpClass::kProducts || op_class == OpClass::kAttention;
}

// The fit of `name` whose team is nearest in size, the smaller of two; null: none.
const MeasuredKernel* find_kernel(const MeasuredMachine& machine, std::string_view name, DType type,
                                  int threads) {
  const MeasuredKernel* best = nullptr;
  const auto distance = [&](const MeasuredKernel& kernel) {
    return kernel.threads > threads ? kernel.threads - threads : threads - kernel.threads;
  };
  for (const MeasuredKernel& kernel : machine.kernels) {
    if (kernel.op != name || kernel.type != type || kernel.tokens != 0) continue;
    if (best == nullptr || distance(kernel) < distance(*best)) best = &kernel;
  }
  return best;
}

std::string class_name(const Instruction& instruction) {
  return std::string(kClassMark) + std::string(name_of(class_of(instruction.op)));
}

}  // namespace

double filled_part(const Program& program, const Instruction& instruction) {
  if (!row_of(instruction.op).cost.only_filled) return 1;
  const Shape& rows = program.buffer(instruction.inputs.at(0)).shape;
  const auto room = static_cast<double>(numel(rows) / rows.back());
  for (const Instruction& other : program.instructions) {
    if (other.op != OpKind::kRouter) continue;
    const auto choices = static_cast<double>(numel(program.buffer(other.outputs.at(1)).shape));
    return room > 0 ? std::min(1.0, choices / room) : 1;
  }
  return 1;
}

std::string_view name_of(TimeTerm term) {
  constexpr std::array<std::string_view, kNumTimeTerms> kNames = {
      "call", "flop",      "left",    "right",    "out", "score",
      "byte", "byte_256k", "byte_2m", "byte_16m", "mid", "far"};
  return kNames.at(static_cast<size_t>(term));
}

double seconds_of(const TimeTerms& units, const TimeTerms& seconds) {
  double sum = 0;
  for (size_t i = 0; i < units.size(); ++i) sum += units[i] * seconds[i];
  return sum;
}

TimeTerms byte_terms(double bytes) {
  TimeTerms terms{};
  at(terms, TimeTerm::kCall) = 1;
  at(terms, TimeTerm::kByte) = bytes;
  at(terms, TimeTerm::kByte256K) = std::max(0.0, bytes - (1 << 18));
  at(terms, TimeTerm::kByte2M) = std::max(0.0, bytes - (1 << 21));
  at(terms, TimeTerm::kByte16M) = std::max(0.0, bytes - (1 << 24));
  return terms;
}

TimeTerms kernel_terms(const Program& program, const Instruction& instruction) {
  const InstructionCost cost = cost_of(program, instruction);
  const double filled = filled_part(program, instruction);
  const double bytes = filled * static_cast<double>(cost.bytes_read + cost.bytes_written);
  if (!multiplies(cost.op_class)) return byte_terms(bytes);
  TimeTerms terms{};
  at(terms, TimeTerm::kCall) = 1;
  at(terms, TimeTerm::kFlop) = filled * static_cast<double>(cost.flops);
  if (cost.op_class == OpClass::kAttention) {
    // Forward and backward have the same pairs per product.
    const int products = row_of(instruction.op).cost.attention_products;
    const auto per_pair = static_cast<double>(2 * products * instruction.args.head_dim);
    at(terms, TimeTerm::kScore) = per_pair > 0 ? static_cast<double>(cost.flops) / per_pair : 0;
    at(terms, TimeTerm::kByte) = bytes;
    return terms;
  }
  const auto elements = [&](BufferId id) {
    return static_cast<double>(numel(program.buffer(id).shape));
  };
  // Weights are on the right, and what a weight gradient gives: they have no rows to be filled.
  const bool of_weights = row_of(instruction.op).cost.product == Product::kExpertWeights;
  at(terms, TimeTerm::kLeft) = filled * elements(instruction.inputs.at(0));
  if (instruction.inputs.size() > 1) {
    at(terms, TimeTerm::kRight) = (of_weights ? filled : 1) * elements(instruction.inputs[1]);
  }
  at(terms, TimeTerm::kOut) = (of_weights ? 1 : filled) * elements(instruction.outputs.at(0));
  return terms;
}

TimeTerms transfer_terms(const Program& program, const Instruction& instruction) {
  int64_t bytes = 0;
  for (const BufferId id : instruction.inputs) bytes = std::max(bytes, program.buffer(id).bytes());
  for (const BufferId id : instruction.outputs) bytes = std::max(bytes, program.buffer(id).bytes());
  return byte_terms(static_cast<double>(bytes));
}

DType kernel_type(const Program& program, const Instruction& instruction) {
  DType narrowest = DType::kF64;
  for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
    for (const BufferId id : *operands) {
      const DType type = program.buffer(id).dtype;
      if (is_float(type) && size_bytes(type) < size_bytes(narrowest)) narrowest = type;
    }
  }
  return narrowest;
}

TimeFit fit_times(const std::vector<TimeSample>& samples) {
  std::vector<std::vector<double>> rows;
  std::vector<double> values;
  for (const TimeSample& sample : samples) {
    rows.emplace_back(sample.units.begin(), sample.units.end());
    values.push_back(sample.seconds);
  }
  const std::vector<double> fitted = fit_non_negative(rows, values);
  TimeFit fit;
  std::copy(fitted.begin(), fitted.end(), fit.seconds.begin());
  fit.points = static_cast<int>(samples.size());
  fit.error_pct = 100 * mean_relative_error(rows, values, fitted);
  return fit;
}

bool is_measured(const MeasuredMachine& machine, const Program& program,
                 const Instruction& instruction) {
  return find_kernel(machine, name_of(instruction.op), kernel_type(program, instruction),
                     program.threads) != nullptr;
}

double kernel_s(const MeasuredMachine& machine, const Program& program,
                const Instruction& instruction) {
  const DType type = kernel_type(program, instruction);
  const MeasuredKernel* kernel = nullptr;
  // Bookkeeping in f64 (metrics, counts) is the same in every run.
  for (const DType candidate : {type, DType::kF32}) {
    for (const std::string& name :
         {std::string(name_of(instruction.op)), class_name(instruction)}) {
      if (kernel == nullptr) kernel = find_kernel(machine, name, candidate, program.threads);
    }
  }
  require_config(kernel != nullptr,
                 "the cluster file has no time of {} in {}: measure this machine again with "
                 "tessera calibrate",
                 name_of(instruction.op), name_of(type));
  double seconds = seconds_of(kernel_terms(program, instruction), kernel->fit.seconds);
  if (kernel->threads != program.threads) {
    seconds *= static_cast<double>(kernel->threads) / static_cast<double>(program.threads);
  }
  return seconds + machine.dispatch_s;
}

TimeTerms collective_seconds(const MeasuredMachine& machine, std::string_view op,
                             std::string_view ranks_are, int ranks) {
  const MeasuredCollective* below = nullptr;
  const MeasuredCollective* above = nullptr;
  for (const MeasuredCollective& collective : machine.collectives) {
    if (collective.op != op || collective.ranks_are != ranks_are) continue;
    if (collective.ranks <= ranks && (below == nullptr || collective.ranks > below->ranks)) {
      below = &collective;
    }
    if (collective.ranks >= ranks && (above == nullptr || collective.ranks < above->ranks)) {
      above = &collective;
    }
  }
  require_config(below != nullptr || above != nullptr,
                 "the cluster file has no time of {} between {}: measure this machine again with "
                 "tessera calibrate",
                 op, ranks_are);
  if (below == nullptr) below = above;
  TimeTerms seconds = below->fit.seconds;
  if (above == nullptr) {  // more ranks than were ever measured
    for (double& value : seconds) value *= static_cast<double>(ranks) / below->ranks;
    return seconds;
  }
  if (above == below || above->ranks == below->ranks) return seconds;
  const double part =
      static_cast<double>(ranks - below->ranks) / static_cast<double>(above->ranks - below->ranks);
  for (size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] += part * (above->fit.seconds[i] - seconds[i]);
  }
  return seconds;
}

double slowdown(const MeasuredMachine& machine, int threads, OpClass op_class) {
  const auto value = [&](const CoreSharing& row) {
    return row.slowdown[static_cast<size_t>(op_class)];
  };
  if (machine.sharing.empty()) return std::max(1.0, static_cast<double>(threads) / machine.cores);
  const CoreSharing* below = &machine.sharing.front();
  for (const CoreSharing& row : machine.sharing) {
    if (row.threads >= threads) {
      if (row.threads == below->threads || threads <= below->threads) return value(row);
      const double part = static_cast<double>(threads - below->threads) /
                          static_cast<double>(row.threads - below->threads);
      return value(*below) + part * (value(row) - value(*below));
    }
    below = &row;
  }
  return value(*below) * static_cast<double>(threads) / below->threads;
}

void check(const MeasuredMachine& machine) {
  const auto require_time = [](const std::string& what, const TimeFit& fit) {
    for (int i = 0; i < kNumTimeTerms; ++i) {
      const double value = fit.seconds[static_cast<size_t>(i)];
      require_config(value >= 0 && value <= 1e3, "{}: seconds.{} must be from 0 to 1000, got {:g}",
                     what, name_of(static_cast<TimeTerm>(i)), value);
    }
  };
  if (machine.empty()) return;
  require_config(machine.device != TrainDevice::kAuto,
                 "measured.device must be cpu or cuda, got '{}'", name_of(machine.device));
  require_config(machine.cores >= 1 && machine.cores <= 1 << 16,
                 "measured.cores must be from 1 to 65536, got {}", machine.cores);
  require_config(machine.dispatch_s >= 0 && machine.dispatch_s <= 1,
                 "measured.dispatch_s must be from 0 to 1, got {:g}", machine.dispatch_s);
  int threads = 0;
  for (const CoreSharing& row : machine.sharing) {
    require_config(row.threads > threads,
                   "measured.sharing.threads must grow from number to number, got {} behind {}",
                   row.threads, threads);
    threads = row.threads;
    for (const OpClass op_class : kAllOpClasses) {
      const double value = row.slowdown[static_cast<size_t>(op_class)];
      require_config(value >= 0.1 && value <= 1e6,
                     "measured.sharing.{} must be from 0.1 to 1e6, got {:g}", name_of(op_class),
                     value);
    }
  }
  for (const MeasuredKernel& kernel : machine.kernels) {
    require_time("measured.kernels " + kernel.op, kernel.fit);
  }
  for (const ReadingShares& shares : machine.reading) {
    double bytes = 0;
    for (const ReadingShare& point : shares.points) {
      require_config(point.bytes > bytes && point.mid >= 0 && point.mid <= 1 && point.far >= 0 &&
                         point.far <= 1,
                     "measured.reading: bytes must grow, mid and far be from 0 to 1, got {:g}, "
                     "{:g} and {:g}",
                     point.bytes, point.mid, point.far);
      bytes = point.bytes;
    }
  }
  for (const MeasuredCollective& collective : machine.collectives) {
    require_time("measured.collectives " + collective.op, collective.fit);
  }
}

}  // namespace tessera

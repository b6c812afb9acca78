#include "train/session/injection.h"

#include <limits>
#include <set>

#include "base/error.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "tensor/element.h"

namespace tessera {
namespace {

int64_t parse_number(const std::string& text, const std::string& whole) {
  try {
    return std::stoll(text);
  } catch (const std::exception&) {
    throw ConfigError(fmt::format("--inject {}: '{}' is no number", whole, text));
  }
}

Axis parse_axis(std::string_view text, const std::string& whole) {
  for (const Axis axis : kAllAxes) {
    if (name_of(axis) == text) return axis;
  }
  throw ConfigError(
      fmt::format("--inject {}: '{}' is no axis (pp, dp, fsdp, cp, tp)", whole, text));
}

// This rank's part of a buffer that a group of `size` shares.
BufferId own_part(Program& program, BufferId whole, AxisSet group) {
  Buffer part = program.buffer(whole);
  part.shape = {numel(part.shape) / program.mesh.size(group)};
  part.offset += program.mesh.position(program.rank, group) * part.bytes();
  program.buffers.push_back(part);
  return static_cast<BufferId>(program.buffers.size()) - 1;
}

BufferId flat(Program& program, BufferId id) {
  Buffer buffer = program.buffer(id);
  buffer.shape = {numel(buffer.shape)};
  program.buffers.push_back(buffer);
  return static_cast<BufferId>(program.buffers.size()) - 1;
}

void drop(Program& program, size_t index) {
  const Instruction before = program.instructions[index];
  BufferId in = flat(program, before.inputs[0]);
  BufferId out = flat(program, before.outputs[0]);
  if (before.collective == CastKind::kReduceScatter)
    in = own_part(program, before.inputs[0], before.group);
  if (before.collective == CastKind::kAllGather)
    out = own_part(program, before.outputs[0], before.group);
  Instruction& instruction = program.instructions[index];
  instruction.op = OpKind::kCopy;
  instruction.collective = CastKind::kNothing;
  instruction.inputs = {in};
  instruction.outputs = {out};
}

void scale(const Tensor& t, double factor) {
  for (int64_t i = 0; i < t.numel(); ++i) write_element(t, i, factor * read_element(t, i));
}

void roll(const Tensor& t) {
  const double last = read_element(t, t.numel() - 1);
  for (int64_t i = t.numel() - 1; i > 0; --i) write_element(t, i, read_element(t, i - 1));
  write_element(t, 0, last);
}

// Both ends take part, so that nobody waits.
void drop_message(Instruction& instruction) {
  const bool send = instruction.op == OpKind::kSend;
  if (send) instruction.outputs = instruction.inputs;
  instruction.op = send ? OpKind::kCopy : OpKind::kZero;
}

// The forward op, its gradient and its recomputation stay consistent with each other.
void draw_by_local_index(const Injection& injection, std::vector<Program>& programs) {
  std::set<std::pair<int64_t, DropoutSite>> masks;  // unit and site
  for (const Program& program : programs) {
    for (const Instruction& i : program.instructions) {
      if (i.name == injection.tensor && i.args.dropout > 0) masks.emplace(i.args.unit, i.args.site);
    }
  }
  require_config(!masks.empty(), "--inject: nothing is dropped in '{}'; see tessera plan --program",
                 injection.tensor);
  for (Program& program : programs) {
    for (Instruction& i : program.instructions) {
      if (i.args.dropout == 0 || !masks.contains({i.args.unit, i.args.site})) continue;
      i.args.first_sample = 0;
      i.args.first_token = 0;
    }
  }
}

}  // namespace

Injection parse_injection(const std::string& text) {
  Injection injection;
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (kind == "nan") injection.kind = Injection::Kind::kNan;
  if (kind == "drop-cast") injection.kind = Injection::Kind::kDropCast;
  if (kind == "drop-message") injection.kind = Injection::Kind::kDropMessage;
  if (kind == "roll-shard") injection.kind = Injection::Kind::kRollShard;
  if (kind == "scale-grad") injection.kind = Injection::Kind::kScaleGrad;
  if (kind == "scale-value") injection.kind = Injection::Kind::kScaleValue;
  if (kind == "roll-value") injection.kind = Injection::Kind::kRollValue;
  if (kind == "gpu-fault") injection.kind = Injection::Kind::kGpuFault;
  if (kind == "local-mask") injection.kind = Injection::Kind::kLocalMask;
  require_config(injection.kind != Injection::Kind::kNone && colon != std::string::npos,
                 "--inject {}: use nan:, drop-cast:, drop-message:, roll-shard:, scale-grad:, "
                 "scale-value:, roll-value:, gpu-fault: or local-mask:",
                 text);
  for (const std::string_view pair : split(std::string_view(text).substr(colon + 1), ',')) {
    const size_t equals = pair.find('=');
    const std::string key(pair.substr(0, equals));
    const std::string value(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
    if (key == "tensor") {
      injection.tensor = value;
    } else if (key == "step") {
      injection.step = parse_number(value, text);
    } else if (key == "rank") {
      injection.rank = static_cast<int>(parse_number(value, text));
    } else if (key == "axis") {
      injection.axis = parse_axis(value, text);
    } else {
      throw ConfigError(
          fmt::format("--inject {}: unknown key '{}'", shortened(text), shortened(key)));
    }
  }
  require_config(!injection.tensor.empty(), "--inject {}: tensor=NAME is missing", text);
  return injection;
}

void inject_into_programs(const Injection& injection, std::vector<Program>& programs) {
  if (injection.kind == Injection::Kind::kLocalMask) draw_by_local_index(injection, programs);
  const bool message = injection.kind == Injection::Kind::kDropMessage;
  if (injection.kind != Injection::Kind::kDropCast && !message) return;
  size_t found = 0;
  for (Program& program : programs) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      Instruction& instruction = program.instructions[i];
      if (message && instruction.stream == StreamKind::kPipe &&
          instruction.name == injection.tensor) {
        drop_message(instruction);
        ++found;
      }
      if (message || !has_collectives(instruction.stream)) continue;
      // The name of the value, or of the buffer as plan --program shows it.
      if (instruction.name != injection.tensor &&
          program.buffer(instruction.outputs[0]).name != injection.tensor) {
        continue;
      }
      drop(program, i);
      ++found;
    }
  }
  require_config(found > 0, "--inject: no {} '{}'; see tessera plan --program",
                 message ? "message carries" : "collective makes", injection.tensor);
}

TensorSource inject_into_weights(const Injection& injection, int rank, TensorSource source) {
  if (injection.kind != Injection::Kind::kRollShard || rank != injection.rank) return source;
  return [injection, source = std::move(source)](const LogicalTensor& tensor, int64_t first,
                                                 std::span<double> out) {
    int64_t from = first;
    if (tensor.name == injection.tensor) {
      const int64_t row = tensor.shape.size() == 2 ? tensor.cols() : 1;
      if (first + row + static_cast<int64_t>(out.size()) <= numel(tensor.shape)) from = first + row;
    }
    source(tensor, from, out);
  };
}

std::optional<GpuFault> fault_of(const Injection& injection, int rank) {
  if (injection.kind != Injection::Kind::kGpuFault || rank != injection.rank) return std::nullopt;
  return GpuFault{injection.tensor, injection.step};
}

Executor::Probe injection_probe(const Injection& injection, Executor& executor, int64_t step) {
  const Program& program = executor.program();
  if (injection.kind == Injection::Kind::kNan) {
    if (step != injection.step || program.rank != injection.rank) return {};
    return [&injection, &executor](size_t, const Instruction& instruction) {
      if (instruction.name != injection.tensor || instruction.outputs.empty()) return;
      executor.edit(instruction.outputs[0], [](const Tensor& t) {
        write_element(t, 0, std::numeric_limits<double>::quiet_NaN());
      });
    };
  }
  if (injection.kind == Injection::Kind::kScaleGrad) {
    const std::string gradient = fmt::format("d({}.weight)", injection.tensor);
    return [&injection, &executor, gradient](size_t, const Instruction& instruction) {
      const Program& p = executor.program();
      if (instruction.micro_batch != p.micro_batches - 1) return;
      for (size_t i = 0; i < instruction.outputs.size(); ++i) {
        // A bias's gradient is made beside that of its matrix, whose name the instruction has.
        const BufferId id = instruction.outputs[i];
        if ((i == 0 ? instruction.name : p.buffer(id).name) != gradient) continue;
        executor.edit(id, [&](const Tensor& t) {
          scale(t, static_cast<double>(p.mesh.size(injection.axis)));
        });
      }
    };
  }
  const bool scales = injection.kind == Injection::Kind::kScaleValue;
  if (scales || injection.kind == Injection::Kind::kRollValue) {
    return [&injection, &executor, scales](size_t, const Instruction& instruction) {
      const Program& p = executor.program();
      for (size_t i = 0; i < instruction.outputs.size(); ++i) {
        const BufferId id = instruction.outputs[i];
        const bool named = i == 0 && instruction.name == injection.tensor;
        if (!named && p.buffer(id).name != injection.tensor) continue;
        executor.edit(id, [&](const Tensor& t) {
          if (scales) {
            scale(t, static_cast<double>(p.mesh.size(injection.axis)));
          } else {
            roll(t);
          }
        });
      }
    };
  }
  return {};
}

}  // namespace tessera

#include "runtime/rope_table.h"

#include <cmath>
#include <numbers>

#include "tensor/element.h"

namespace tessera {

std::vector<double> rope_frequencies(const RopeSpec& rope, int64_t head_dim) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_dim; i += 2) {
    const double f = std::pow(rope.theta, -static_cast<double>(i) / static_cast<double>(head_dim));
    if (rope.scaling != RopeScaling::kLlama3) {
      frequencies.push_back(f);
      continue;
    }
    // Long waves are slowed by `factor`, short ones kept, those between blended.
    const auto original = static_cast<double>(rope.original_max_position);
    const double low = rope.low_freq_factor;
    const double high = rope.high_freq_factor;
    const double wavelength = 2 * std::numbers::pi / f;
    if (wavelength > original / low) {
      frequencies.push_back(f / rope.factor);
    } else if (wavelength < original / high) {
      frequencies.push_back(f);
    } else {
      const double keep = (original / wavelength - low) / (high - low);
      frequencies.push_back((1 - keep) * f / rope.factor + keep * f);
    }
  }
  return frequencies;
}

void fill_rope_tables(ProgramMemory& memory, const Program& program, const RopeSpec& rope,
                      const SequenceRows& rows) {
  if (program.rope_cos == kNoBuffer) return;  // the model learns its positions
  const std::vector<double> frequencies =
      rope_frequencies(rope, 2 * program.buffer(program.rope_cos).shape[1]);
  const auto fill = [&](BufferId id, double (*function)(double)) {
    memory.edit(id, [&](const Tensor& table) {
      for (int64_t token = 0; token < table.dim(0); ++token) {
        const auto position = static_cast<double>(rows.position(token));
        for (int64_t i = 0; i < table.dim(1); ++i) {
          write_element(table, token * table.dim(1) + i,
                        function(position * frequencies[static_cast<size_t>(i)]));
        }
      }
    });
  };
  fill(program.rope_cos, [](double angle) { return std::cos(angle); });
  fill(program.rope_sin, [](double angle) { return std::sin(angle); });
}

}  // namespace tessera

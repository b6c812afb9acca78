#include "cost/step/op_time.h"

#include <algorithm>
#include <array>

#include "base/rounding.h"
#include "cost/step/to_double.h"

namespace tessera {
namespace {

// Smaller tiles fill the last wave better and reuse less: their rate, of the largest tile's.
struct Tile {
  int64_t row_part, column_part;
  double rate;
};

// 16 bytes of 16-bit numbers: what matrix units load at once.
constexpr int64_t kAlignment = 8;
constexpr int64_t kElementBytes = 2;

bool misaligned(int64_t size) { return size % kAlignment != 0; }

}  // namespace

double product_s(const DeviceSpec& device, const EngineNumbers& engine, MathType type, int64_t rows,
                 int64_t columns, int64_t inner, int64_t batch) {
  if (rows <= 0 || columns <= 0 || inner <= 0 || batch <= 0) return 0;
  const double units = device.multiprocessors.value;
  const double share = device.wave_share.value;
  const double rate =
      device.peak(type) * device.product_efficiency[static_cast<size_t>(type)].value;
  double best_area = 0;  // rows * columns that the device works through, at the largest tile's rate
  const std::array tiles_of_engine = {Tile{1, 1, 1.0}, Tile{2, 1, engine.half_tile_rate},
                                      Tile{4, 1, engine.quarter_tile_rate},
                                      Tile{4, 2, engine.eighth_tile_rate}};
  for (const Tile& tile : tiles_of_engine) {
    const int64_t tile_rows =
        std::max<int64_t>(1, static_cast<int64_t>(device.tile_rows.value) / tile.row_part);
    const int64_t tile_columns =
        std::max<int64_t>(1, static_cast<int64_t>(device.tile_columns.value) / tile.column_part);
    const double tiles = to_double(ceil_div(rows, tile_rows)) *
                         to_double(ceil_div(columns, tile_columns)) * to_double(batch);
    const double waves = tiles / units;
    const double whole = to_double(static_cast<int64_t>(waves)) < waves
                             ? to_double(static_cast<int64_t>(waves)) + 1
                             : waves;
    const double taken = whole * share + std::max(1.0, waves) * (1 - share);
    const double area = taken * units * to_double(tile_rows * tile_columns) / tile.rate;
    if (best_area == 0 || area < best_area) best_area = area;
  }
  double compute = best_area * 2 * (to_double(inner) + device.product_fill.value) / rate;
  if (misaligned(rows) || misaligned(columns) || misaligned(inner)) {
    compute *= device.misaligned_slowdown.value;
  }
  const double elements = to_double(rows) * to_double(inner) +
                          to_double(inner) * to_double(columns) +
                          to_double(rows) * to_double(columns);
  const double memory = elements * to_double(batch * kElementBytes) /
                        (device.memory_bandwidth.value * device.memory_efficiency.value);
  return std::max(compute, memory) + device.launch_s.value;
}

double memory_s(const DeviceSpec& device, double bytes) {
  if (bytes <= 0) return 0;
  return bytes / (device.memory_bandwidth.value * device.memory_efficiency.value) +
         device.launch_s.value;
}

AttentionTime flash_attention_s(const DeviceSpec& device, const EngineNumbers& engine,
                                const AttentionSizes& shape) {
  const double flops = 2.0 * to_double(shape.batch_heads) * to_double(shape.queries) *
                       to_double(shape.keys) * to_double(shape.query_dim + shape.value_dim) *
                       shape.seen;
  const double peak = device.peak(MathType::kF16);
  return {
      flops / (peak * device.attention_efficiency.value) + device.launch_s.value,
      engine.flash_backward_products * flops / (peak * device.attention_backward_efficiency.value) +
          device.launch_s.value};
}

AttentionTime unfused_attention_s(const DeviceSpec& device, const EngineNumbers& engine,
                                  const AttentionSizes& shape) {
  const double scores =
      to_double(shape.batch_heads) * to_double(shape.queries) * to_double(shape.keys);
  const double rate = device.peak(MathType::kF16) * device.batched_efficiency.value;
  double products = 0;  // the two of forward
  for (const int64_t dim : {shape.query_dim, shape.value_dim}) {
    const double slowdown = misaligned(dim) ? device.misaligned_slowdown.value : 1.0;
    products += 2.0 * scores * (to_double(dim) + engine.head_fill) / rate * slowdown;
  }
  const double launches = device.launch_s.value;
  return {products + memory_s(device, scores * engine.score_bytes_forward) + 2 * launches,
          2 * products + memory_s(device, scores * engine.score_bytes_backward) + 4 * launches};
}

}  // namespace tessera

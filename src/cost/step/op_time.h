// Time of one kernel on one device, from its shape. Every function is a closed form of the device's
// and the engine's constants; communication is in collective_time.h.
#pragma once

#include <cstdint>

#include "cost/engine/engine.h"
#include "cost/hardware/device.h"

namespace tessera {

// `batch` products of [rows, inner] with [inner, columns]: tiles spread over the multiprocessors in
// waves, of which the largest tile that pays is chosen; the inner loop has a fill cost; never
// faster than memory or a launch. 0 where a size is 0.
double product_s(const DeviceSpec& device, const EngineNumbers& engine, MathType type, int64_t rows,
                 int64_t columns, int64_t inner, int64_t batch = 1);

// A kernel, or several fused into one, that reads and writes `bytes` in all.
double memory_s(const DeviceSpec& device, double bytes);

struct AttentionSizes {
  int64_t batch_heads = 0;  // sequences times query heads, on this device
  int64_t queries = 0;      // of one sequence, on this device
  int64_t keys = 0;         // that a sequence has
  int64_t query_dim = 0;    // of a head
  int64_t value_dim = 0;
  double seen = 0.5;  // share of the keys that a query sees: half with a causal mask
};

struct AttentionTime {
  double forward_s = 0;
  double backward_s = 0;
};

// One kernel per pass, which skips what the mask hides.
AttentionTime flash_attention_s(const DeviceSpec& device, const EngineNumbers& engine,
                                const AttentionSizes& shape);

// Scores and probabilities go through memory, the mask saves nothing; scaled masked softmax and
// dropout are kernels of their own.
AttentionTime unfused_attention_s(const DeviceSpec& device, const EngineNumbers& engine,
                                  const AttentionSizes& shape);

}  // namespace tessera

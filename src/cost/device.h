// What the planner knows of one accelerator. Times are made of these numbers in op_time.h; the
// catalogue of devices is in catalogue.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cost/constant.h"

namespace tessera {

// Number formats of products, by their rate on matrix units.
enum class MathType : uint8_t { kF32, kTF32, kF16, kF8, kF4 };
inline constexpr int kNumMathTypes = 5;
std::string_view name_of(MathType type);  // "f32", "tf32", "f16" (bf16 too), "f8", "f4"

struct Device {
  std::string name;
  std::string extends = "";  // the entry whose numbers were taken over, or empty

  std::array<Constant, kNumMathTypes> peak_flops = {};  // per second, dense; 0: cannot
  Constant memory_bytes;                                // on the device
  Constant reserved_bytes;     // context, libraries: what no tensor can have
  Constant memory_bandwidth;   // bytes/s of the data sheet
  Constant memory_efficiency;  // of a large elementwise kernel, 0 to 1
  Constant multiprocessors;    // that a product's tiles are spread over
  Constant tile_rows;          // of the largest tile of a product
  Constant tile_columns;
  Constant product_efficiency;    // of a huge product, of the peak, 0 to 1
  Constant product_fill;          // k0: a product of inner size K has K / (K + k0) of its rate
  Constant wave_share;            // how much of the last wave's idle time is lost, 0 to 1
  Constant attention_efficiency;  // of a fused attention kernel's forward, of the peak, 0 to 1
  Constant launch_s;              // floor of the time of one kernel
};

}  // namespace tessera

// What the planner knows of one accelerator. Times are made of these numbers in op_time.h; the
// catalogue of devices is in catalogue.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cost/hardware/constant.h"

namespace tessera {

// Number formats of products, by their rate on matrix units.
enum class MathType : uint8_t { kF32, kTF32, kF16, kF8, kF4 };
inline constexpr int kNumMathTypes = 5;
std::string_view name_of(MathType type);  // "f32", "tf32", "f16" (bf16 too), "f8", "f4"

// What runs the Programs of a device: CPU code, or CUDA kernels (an accelerator of another make is
// planned as if it had them).
enum class DeviceKind : uint8_t { kCpu, kGpu, kTpu };
inline constexpr int kNumDeviceKinds = 3;
std::string_view name_of(DeviceKind kind);  // "cpu", "gpu", "tpu"

struct DeviceSpec {
  std::string name;
  DeviceKind kind = DeviceKind::kGpu;
  std::string extends = "";  // the entry whose numbers were taken over, or empty

  std::array<Constant, kNumMathTypes> peak_flops = {};  // per second, dense; 0: cannot
  // The share of the peak that a huge product reaches, 0 to 1; by type as above.
  std::array<Constant, kNumMathTypes> product_efficiency = {};
  Constant memory_bytes;                   // on the device
  Constant reserved_bytes;                 // context, libraries: what no tensor can have
  Constant memory_bandwidth;               // bytes/s of the data sheet
  Constant memory_efficiency;              // of a large elementwise kernel, 0 to 1
  Constant multiprocessors;                // that a product's tiles are spread over
  Constant tile_rows;                      // of the largest tile of a product
  Constant tile_columns;                   //
  Constant product_fill;                   // k0: an inner size K costs as much as K + k0
  Constant wave_share;                     // of the last wave's idle time that is lost, 0 to 1
  Constant misaligned_slowdown;            // of products whose rows are not whole 16 bytes
  Constant batched_efficiency;             // of the small products of unfused attention
  Constant attention_efficiency;           // of fused attention, forward, of the f16 peak
  Constant attention_backward_efficiency;  //
  // How much slower fused attention is that was not written for this device, 1 or more.
  Constant portable_attention_slowdown = {1, Provenance::kDefault, "as the device's own"};
  Constant launch_s;   // that one kernel costs on the device at least
  Constant host_op_s;  // of the host, to issue one op

  [[nodiscard]] double peak(MathType type) const {
    return peak_flops[static_cast<size_t>(type)].value;
  }
};

}  // namespace tessera

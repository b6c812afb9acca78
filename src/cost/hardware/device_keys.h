// The keys of a device file that hold one constant each, and where they go.
#pragma once

#include <array>
#include <string_view>

#include "cost/hardware/device.h"

namespace tessera {

struct DeviceKey {
  std::string_view name;
  Constant DeviceSpec::*field;
};
inline constexpr std::array kDeviceKeys = {
    DeviceKey{"memory_bytes", &DeviceSpec::memory_bytes},
    DeviceKey{"reserved_bytes", &DeviceSpec::reserved_bytes},
    DeviceKey{"memory_bandwidth", &DeviceSpec::memory_bandwidth},
    DeviceKey{"memory_efficiency", &DeviceSpec::memory_efficiency},
    DeviceKey{"multiprocessors", &DeviceSpec::multiprocessors},
    DeviceKey{"tile_rows", &DeviceSpec::tile_rows},
    DeviceKey{"tile_columns", &DeviceSpec::tile_columns},
    DeviceKey{"product_fill", &DeviceSpec::product_fill},
    DeviceKey{"wave_share", &DeviceSpec::wave_share},
    DeviceKey{"misaligned_slowdown", &DeviceSpec::misaligned_slowdown},
    DeviceKey{"batched_efficiency", &DeviceSpec::batched_efficiency},
    DeviceKey{"attention_efficiency", &DeviceSpec::attention_efficiency},
    DeviceKey{"attention_backward_efficiency", &DeviceSpec::attention_backward_efficiency},
    DeviceKey{"portable_attention_slowdown", &DeviceSpec::portable_attention_slowdown},
    DeviceKey{"launch_s", &DeviceSpec::launch_s},
    DeviceKey{"host_op_s", &DeviceSpec::host_op_s},
};

}  // namespace tessera

// The level of tiles for a test: with the tiles of the CPU where it has them, else with emulated
// ones.
#pragma once

#include <optional>

#include "kernels/testing/tile_emulator.h"
#include "tensor/cpu_level.h"

namespace tessera::kernels::testing {

// While it lives, kernels run on tiles.
class TilesHere {
 public:
  // The bodies need AVX512_BF16 beside tiles: a test is left out on a CPU without that.
  static bool possible() { return highest_cpu_level() >= CpuLevel::kV4Bf16; }
  static bool native() { return highest_cpu_level() >= CpuLevel::kV4Amx; }

  TilesHere() {
    if (!native()) emulator_.emplace();
    assume_cpu_level(CpuLevel::kV4Amx);
  }
  ~TilesHere() { assume_cpu_level(before_); }
  TilesHere(const TilesHere&) = delete;
  TilesHere& operator=(const TilesHere&) = delete;

 private:
  CpuLevel before_ = cpu_level();
  std::optional<TileEmulator> emulator_;
};

}  // namespace tessera::kernels::testing

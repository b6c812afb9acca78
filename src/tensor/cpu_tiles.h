// Whether this process may use the tiles of the CPU (AMX) for products of bf16.
//
// The CPU must have them, the kernel must keep them when threads take turns, and a process must ask
// for them: their 8 KiB make the state of a thread larger. It is asked once, for all threads that
// there are and will be; where it is refused, a tile instruction would end the process.
#pragma once

#include <string>

namespace tessera {

struct CpuTiles {
  bool usable;
  std::string why_not;  // in words, where they are not usable
};

// Asks the kernel the first time. A program that is started by this one asks for itself.
[[nodiscard]] const CpuTiles& cpu_tiles();

}  // namespace tessera

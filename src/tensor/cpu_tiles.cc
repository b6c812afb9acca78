#include "tensor/cpu_tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#endif

namespace tessera {
namespace {

#if defined(__x86_64__) && defined(__linux__)
// What cpuid says of one leaf; zeros where the CPU does not have it.
struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  Leaf(unsigned number, unsigned part) { __get_cpuid_count(number, part, &eax, &ebx, &ecx, &edx); }
};

uint64_t states_kept_by_the_kernel() {
  constexpr unsigned kXgetbv = 1U << 27;
  if ((Leaf(1, 0).ecx & kXgetbv) == 0) return 0;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

CpuTiles ask() {
  constexpr unsigned kTiles = 1U << 24, kProductsOfBf16 = 1U << 22;
  const Leaf features(7, 0);
  if ((features.edx & kTiles) == 0) return {false, "this CPU has no AMX"};
  if ((features.edx & kProductsOfBf16) == 0) return {false, "its AMX has no bf16"};
  const Leaf palette(0x1d, 1);
  const unsigned rows = palette.ecx & 0xffff, row_bytes = palette.ebx & 0xffff;
  const unsigned tiles = palette.ebx >> 16;
  if (tiles < 8 || rows < 16 || row_bytes < 64) {
    return {false, fmt::format("its AMX has {} tiles of {} rows of {} bytes, needed are 8 of 16 of "
                               "64",
                               tiles, rows, row_bytes)};
  }
  constexpr uint64_t kConfiguration = 1ULL << 17, kData = 1ULL << 18;
  constexpr uint64_t kBoth = kConfiguration | kData;
  if ((states_kept_by_the_kernel() & kBoth) != kBoth) {
    return {false, "the kernel does not switch AMX on: Linux 5.16 or later does"};
  }
  constexpr int64_t kRequestPermission = 0x1023, kDataComponent = 18;  // ARCH_REQ_XCOMP_PERM
  if (syscall(SYS_arch_prctl, kRequestPermission, kDataComponent) != 0) {
    return {false, fmt::format("the kernel refuses AMX: {}", std::strerror(errno))};
  }
  return {true, ""};
}
#else
CpuTiles ask() { return {false, "another kind of CPU"}; }
#endif

}  // namespace

const CpuTiles& cpu_tiles() {
  static const CpuTiles tiles = ask();
  return tiles;
}

}  // namespace tessera

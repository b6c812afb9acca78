#include "tensor/cpu_level.h"

#include <atomic>

#include "base/error.h"
#include "tensor/cpu_tiles.h"

namespace tessera {
namespace {

std::atomic<CpuLevel>& chosen() {
  static std::atomic<CpuLevel> level{highest_cpu_level()};
  return level;
}

}  // namespace

std::string_view name_of(CpuLevel level) {
  switch (level) {
    case CpuLevel::kBase:
      return "base";
    case CpuLevel::kV3:
      return "v3";
    case CpuLevel::kV4:
      return "v4";
    case CpuLevel::kV4Bf16:
      return "v4-bf16";
    case CpuLevel::kV4Amx:
      return "v4-amx";
  }
  return "?";
}

CpuLevel highest_cpu_level() {
#if defined(__x86_64__)
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v3 && v4 && __builtin_cpu_supports("avx512bf16")) {
    return cpu_tiles().usable ? CpuLevel::kV4Amx : CpuLevel::kV4Bf16;
  }
  if (v3 && v4) return CpuLevel::kV4;
  if (v3) return CpuLevel::kV3;
#endif
  return CpuLevel::kBase;
}

void use_cpu_level(std::string_view name) {
  const CpuLevel highest = highest_cpu_level();
  if (name.empty()) {
    chosen() = highest;
    return;
  }
  for (const CpuLevel level : {CpuLevel::kV3, CpuLevel::kV4, CpuLevel::kV4Bf16, CpuLevel::kV4Amx}) {
    if (name != name_of(level)) continue;
    const bool tiles_alone = level == CpuLevel::kV4Amx && highest == CpuLevel::kV4Bf16;
    require_config(level <= highest, "TESSERA_CPU_LEVEL is '{}', but this CPU has {} at most{}",
                   name, name_of(highest), tiles_alone ? ": " + cpu_tiles().why_not : "");
    chosen() = level;
    return;
  }
  throw ConfigError(fmt::format(
      "TESSERA_CPU_LEVEL is '{}': use v3 (AVX2), v4 (AVX-512), v4-bf16 (AVX512_BF16), v4-amx "
      "(tiles), or leave it out for the highest that the CPU has, which is {}",
      name, name_of(highest)));
}

CpuLevel cpu_level() { return chosen(); }

void assume_cpu_level(CpuLevel level) { chosen() = level; }

}  // namespace tessera

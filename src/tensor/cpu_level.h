// Which instructions the process may use beyond those that all of it is compiled for: where a
// kernel has a body for a level, that body runs.
//
// One setting for the whole process, because a CPU is. Nobody has to say it: without a word it is
// the highest level that the CPU has. The engine reads no environment variables: whoever has a
// main() does, and says so here.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// In the words of the x86-64 psABI; a later one has all that those before it have.
enum class CpuLevel {
  kBase,    // what everything is compiled for, on other CPUs
  kV3,      // AVX2 and FMA
  kV4,      // AVX-512
  kV4Bf16,  // and AVX512_BF16, which has no word there: products of bf16
  kV4Amx,   // and tiles with products of bf16, which the kernel has granted (cpu_tiles.h)
};

[[nodiscard]] std::string_view name_of(CpuLevel level);

// The highest one of this CPU that this process may use.
[[nodiscard]] CpuLevel highest_cpu_level();

// From now on kernels use no more than `name`: "v3", "v4", "v4-bf16", "v4-amx", or "" for the
// highest. Throws ConfigError where it is another word, or the CPU does not have it. Before the
// first kernel runs.
void use_cpu_level(std::string_view name);
[[nodiscard]] CpuLevel cpu_level();

// For tests that emulate instructions which the CPU lacks: takes `level` without a question.
void assume_cpu_level(CpuLevel level);

}  // namespace tessera

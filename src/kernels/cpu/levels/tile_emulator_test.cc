// The emulator of tiles: every way to address memory, the arithmetic against single operations and,
// where the CPU has tiles, against the CPU itself; and what must not be done.
#include "kernels/testing/tile_emulator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/testing/tiles_here.h"

namespace tessera::kernels::testing {
namespace {

struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  Configuration& tile(int i, int num_rows, int bytes) {
    rows[i] = static_cast<uint8_t>(num_rows);
    row_bytes[i] = static_cast<uint16_t>(bytes);
    return *this;
  }
  [[nodiscard]] const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(this); }
};
static_assert(sizeof(Configuration) == 64);

alignas(64) std::byte kept_configuration[64];

class TileEmulatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TilesHere::possible()) GTEST_SKIP() << "this CPU has no AVX512_BF16";
    here_.emplace();
  }

  std::optional<TilesHere> here_;
};

// With the base in r13 and rbx, the step in r12 and r8 as well.
#define LOAD_AND_STORE(address)                                                        \
  asm volatile(                                                                        \
      "mov %[base],%%r13\n mov %[step],%%r12\n mov %[base],%%rbx\n mov %[step],%%r8\n" \
      "tileloadd " address ",%%tmm3\n tilestored %%tmm3,(%[to],%[wide],1)\n"           \
      :                                                                                \
      : [base] "r"(base), [step] "r"(step), [to] "r"(stored), [wide] "r"(wide)         \
      : "memory", "r13", "r12", "rbx", "r8")

TEST_F(TileEmulatorTest, EveryFormOfAddressReachesItsBytes) {
  std::vector<std::byte> memory(8192);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7 % 251);
  const std::byte* const base = memory.data() + 1024;
  const int64_t step = 40, wide = 64;
  std::byte stored[16 * 64];
  const auto expect_rows = [&](const char* form, const std::byte* from, int64_t stride) {
    for (int64_t row = 0; row < 5; ++row) {
      EXPECT_EQ(std::memcmp(stored + row * 64, from + row * stride, 24), 0) << form << " " << row;
    }
  };
  const Configuration five_rows = Configuration().tile(3, 5, 24);
  asm volatile("ldtilecfg %0" : : "m"(five_rows));
  LOAD_AND_STORE("(%[base],%[step],1)");
  expect_rows("base + index", base, 40);
  LOAD_AND_STORE("(%[base],%[step],8)");
  expect_rows("index * 8", base, 320);
  LOAD_AND_STORE("-100(%[base],%[step],2)");
  expect_rows("short displacement", base - 100, 80);
  LOAD_AND_STORE("1000(%[base],%[step],4)");
  expect_rows("long displacement", base + 1000, 160);
  LOAD_AND_STORE("(%%r13,%%r12,1)");
  expect_rows("r13 and r12", base, 40);
  LOAD_AND_STORE("64(%%rbx,%%r8,2)");
  expect_rows("rbx and r8", base + 64, 80);
  asm volatile(
      "sub $4096,%%rsp\n"  // a base that always has the extra byte
      "tileloadd (%[base],%[step],1),%%tmm3\n"
      "tilestored %%tmm3,128(%%rsp,%[step],1)\n"
      "tileloadd 128(%%rsp,%[step],1),%%tmm3\n"
      "tilestored %%tmm3,(%[to],%[wide],1)\n"
      "add $4096,%%rsp\n"
      :
      : [base] "r"(base), [step] "r"(step), [to] "r"(stored), [wide] "r"(wide)
      : "memory", "cc");
  expect_rows("rsp", base, 40);
  // One row needs no index.
  const Configuration one_row = Configuration().tile(3, 1, 24);
  asm volatile("ldtilecfg %0" : : "m"(one_row));
  asm volatile("tileloadd (%[base]),%%tmm3\n tilestored %%tmm3,(%[to])\n"
               :
               : [base] "r"(base), [to] "r"(stored)
               : "memory");
  EXPECT_EQ(std::memcmp(stored, base, 24), 0) << "no index";
  // Relative to the instruction.
  asm volatile("sttilecfg %0" : "=m"(kept_configuration));
  EXPECT_EQ(std::memcmp(kept_configuration, &one_row, 64), 0);
  asm volatile("tilerelease\n sttilecfg %0" : "=m"(kept_configuration));
  const std::byte nothing[64] = {};
  EXPECT_EQ(std::memcmp(kept_configuration, nothing, 64), 0);
}

// c += a b of tiles of these shapes, by the instruction.
void multiply(const Configuration& configuration, const void* a, const void* b, float* c) {
  asm volatile(
      "ldtilecfg %[configuration]\n"
      "tileloadd (%[a],%[line],1),%%tmm6\n"
      "tileloadd (%[b],%[line],1),%%tmm1\n"
      "tileloadd (%[c],%[line],1),%%tmm4\n"
      "tdpbf16ps %%tmm1,%%tmm6,%%tmm4\n"
      "tilestored %%tmm4,(%[c],%[line],1)\n"
      "tilerelease\n"
      :
      : [configuration] "m"(configuration), [a] "r"(a), [b] "r"(b), [c] "r"(c),
        [line] "r"(int64_t{64})
      : "memory");
}

float flushed(float x) { return std::abs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }
float of_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return flushed(value);
}

// Bits of every size, and now and then what is special: zeros, the smallest, what is below, the
// largest.
uint16_t some_bf16(std::mt19937_64& rng, bool special) {
  constexpr uint16_t kSpecial[] = {0,      0x8000, 0x0001, 0x007f, 0x0080,
                                   0x8081, 0x7f7f, 0x1f80, 0x2000};
  if (special && rng() % 3 == 0) return kSpecial[rng() % std::size(kSpecial)];
  const uint64_t exponent = special ? 30 + rng() % 70 : 120 + rng() % 12;
  return static_cast<uint16_t>((rng() & 0x807f) | exponent << 7);
}

float step(float sum, uint16_t x, uint16_t y) {
  return flushed(std::fma(of_bf16(x), of_bf16(y), sum));
}

TEST_F(TileEmulatorTest, ProductsAreThoseOfSingleOperations) {
  std::mt19937_64 rng(1);
  for (int round = 0; round < 60; ++round) {
    const int m = round == 0 ? 16 : 1 + static_cast<int>(rng() % 16);
    const int n = round == 0 ? 16 : 1 + static_cast<int>(rng() % 16);
    const int k = round == 0 ? 16 : 1 + static_cast<int>(rng() % 16);
    const bool special = round % 2 == 1;
    uint16_t a[16][32], b[16][32];
    float c[16][16], want[16][16], direct[16][16];
    for (auto& row : a) std::generate(row, row + 32, [&] { return some_bf16(rng, special); });
    for (auto& row : b) std::generate(row, row + 32, [&] { return some_bf16(rng, special); });
    for (auto& row : c) {
      std::generate(row, row + 16, [&] { return of_bf16(some_bf16(rng, special)); });
    }
    if (special) c[0][0] = 0x1p-130F;
    std::memcpy(direct, c, sizeof c);
    std::memcpy(want, c, sizeof c);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        float even = 0, odd = 0;
        for (int p = 0; p < k; ++p) {
          even = step(even, a[i][2 * p], b[p][2 * j]);
          odd = step(odd, a[i][2 * p + 1], b[p][2 * j + 1]);
        }
        want[i][j] = flushed(flushed(c[i][j]) + flushed(even + odd));
      }
    }
    const Configuration shapes =
        Configuration().tile(6, m, 4 * k).tile(1, k, 4 * n).tile(4, m, 4 * n);
    multiply(shapes, a, b, &c[0][0]);
    EXPECT_EQ(std::memcmp(c, want, sizeof c), 0) << m << "x" << n << "x" << k;
    // The emulator itself, also where the CPU has just done it.
    Tiles tiles;
    tiles.configure(shapes.bytes());
    tiles.load(6, reinterpret_cast<const std::byte*>(a), 64);
    tiles.load(1, reinterpret_cast<const std::byte*>(b), 64);
    tiles.load(4, reinterpret_cast<const std::byte*>(direct), 64);
    tiles.multiply(4, 6, 1);
    tiles.store(4, reinterpret_cast<std::byte*>(direct), 64);
    EXPECT_EQ(std::memcmp(c, direct, sizeof c), 0) << m << "x" << n << "x" << k;
  }
}

TEST_F(TileEmulatorTest, LoadsFillTheRestOfATileWithZeros) {
  const Configuration small = Configuration().tile(0, 3, 8),
                      whole = Configuration().tile(0, 16, 64);
  std::vector<uint8_t> ones(1024, 1), stored(1024, 2);
  Tiles tiles;
  tiles.configure(whole.bytes());
  tiles.load(0, reinterpret_cast<const std::byte*>(ones.data()), 64);
  tiles.configure(small.bytes());  // clears all
  tiles.store(0, reinterpret_cast<std::byte*>(stored.data()), 64);
  for (size_t i = 0; i < stored.size(); ++i) {
    EXPECT_EQ(stored[i], i < 3 * 64 && i % 64 < 8 ? 0 : 2) << i;
  }
}

using TileEmulatorDeathTest = TileEmulatorTest;

TEST_F(TileEmulatorDeathTest, WrongConfigurationsEndTheTest) {
  const auto refused = [](const Configuration& configuration, const char* why) {
    EXPECT_DEATH(Tiles().configure(configuration.bytes()), why);
  };
  Configuration other;
  other.palette = 2;
  refused(other, "palette");
  other = {};
  other.start_row = 1;
  refused(other, "start row");
  other = {};
  other.reserved[5] = 1;
  refused(other, "reserved");
  refused(Configuration().tile(0, 17, 64), "more than 16 rows");
  refused(Configuration().tile(0, 16, 65), "more than 64 bytes");
  refused(Configuration().tile(2, 16, 0), "rows or bytes alone");
  refused(Configuration().tile(8, 1, 4), "tile 8");
}

TEST_F(TileEmulatorDeathTest, WrongUsesEndTheTest) {
  Tiles tiles;
  std::byte memory[1024] = {};
  EXPECT_DEATH(tiles.load(0, memory, 64), "not configured");
  tiles.configure(
      Configuration().tile(0, 16, 64).tile(1, 16, 64).tile(2, 8, 64).tile(4, 2, 6).bytes());
  EXPECT_DEATH(tiles.zero(3), "this tile is not configured");
  EXPECT_DEATH(tiles.load(4, memory, 64), "whole words");
  EXPECT_DEATH(tiles.multiply(0, 0, 1), "one tile twice");
  EXPECT_DEATH(tiles.multiply(0, 1, 2), "do not fit");
  EXPECT_DEATH(tiles.multiply(2, 0, 1), "do not fit");
}

TEST_F(TileEmulatorDeathTest, OtherIllegalInstructionsEndTheTest) {
  if (TilesHere::native()) GTEST_SKIP() << "nothing is emulated";
  EXPECT_DEATH(asm volatile("ud2"), "not one of tiles");
  EXPECT_DEATH(asm volatile("tilezero %%tmm1" : :), "not configured");
  // tdpbssd, which is not emulated.
  EXPECT_DEATH(asm volatile(".byte 0xc4,0xe2,0x73,0x5e,0xc2"), "not one|not emulated");
}

TEST_F(TileEmulatorDeathTest, TilesThatWereGivenBackAreGone) {
  const Configuration one = Configuration().tile(0, 1, 64);
  asm volatile("ldtilecfg %0\n tilerelease" : : "m"(one));
  EXPECT_DEATH(asm volatile("tilezero %%tmm0" : :), "");
}

}  // namespace
}  // namespace tessera::kernels::testing

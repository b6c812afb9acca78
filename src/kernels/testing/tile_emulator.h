// Tiles (AMX) for tests on CPUs that have none. There each instruction of tiles raises SIGILL: the
// handler decodes it where it lies in the program, carries it out on tiles of the thread, and goes
// on behind it. So what is tested is the machine code that runs on CPUs with tiles.
//
// Semantics are those of Intel's manual (volume 2: LDTILECFG, TILELOADD, TDPBF16PS, ...). What
// would raise #UD or #GP there ends the test with a message, and so does every other illegal
// instruction. The restart row of interrupted loads is always zero: an emulated load is never
// interrupted.
#pragma once

#include <immintrin.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tessera::kernels::testing {

// Ends the program with a message: all that a handler may do.
[[noreturn]] inline void refuse_tile_instruction(std::string_view why) {
  constexpr std::string_view kWho = "tile emulator: ";
  for (const std::string_view text : {kWho, why, std::string_view("\n")}) {
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) break;
  }
  std::abort();
}

inline void require_of_tiles(bool holds, std::string_view else_what) {
  if (!holds) refuse_tile_instruction(else_what);
}

// The tiles of a thread and their configuration: what instructions do, without their encoding.
class Tiles {
 public:
  static constexpr int kCount = 8, kRows = 16, kRowBytes = 64;

  // 64 bytes: palette, start row, 14 zeros, 16 words of bytes in a row, 16 bytes of rows.
  void configure(const std::byte* from) {
    std::array<uint8_t, 64> text;
    std::memcpy(text.data(), from, text.size());
    *this = Tiles();
    if (text[0] == 0) return;
    require_of_tiles(text[0] == 1, "#GP: ldtilecfg of a palette that there is not");
    require_of_tiles(text[1] == 0, "#GP: ldtilecfg with a start row");
    for (size_t i = 2; i < 16; ++i)
      require_of_tiles(text[i] == 0, "#GP: ldtilecfg, reserved bytes");
    for (size_t i = 0; i < 16; ++i) {
      const int bytes = text[16 + 2 * i] + 256 * text[17 + 2 * i], rows = text[48 + i];
      require_of_tiles(i < kCount || (bytes == 0 && rows == 0), "#GP: ldtilecfg of tile 8 or more");
      require_of_tiles(bytes <= kRowBytes, "#GP: ldtilecfg of rows of more than 64 bytes");
      require_of_tiles(rows <= kRows, "#GP: ldtilecfg of more than 16 rows");
      require_of_tiles((bytes == 0) == (rows == 0), "#GP: ldtilecfg of rows or bytes alone");
      if (i < kCount) row_bytes_[i] = bytes, rows_[i] = rows;
    }
    palette_ = 1;
  }
  void store_configuration(std::byte* to) const {
    std::array<uint8_t, 64> text{};
    text[0] = static_cast<uint8_t>(palette_);
    for (size_t i = 0; i < kCount; ++i) {
      text[16 + 2 * i] = static_cast<uint8_t>(row_bytes_[i]);
      text[48 + i] = static_cast<uint8_t>(rows_[i]);
    }
    std::memcpy(to, text.data(), text.size());
  }
  void release() { *this = Tiles(); }
  [[nodiscard]] bool configured() const { return palette_ != 0; }

  void zero(int tile) {
    check(tile);
    data_[tile] = {};
  }
  void load(int tile, const std::byte* from, int64_t stride) {
    check_words(tile);
    data_[tile] = {};
    for (int row = 0; row < rows_[tile]; ++row) {
      std::memcpy(data_[tile].bytes[row], from + row * stride, size_of_row(tile));
    }
  }
  void store(int tile, std::byte* to, int64_t stride) const {
    check_words(tile);
    for (int row = 0; row < rows_[tile]; ++row) {
      std::memcpy(to + row * stride, data_[tile].bytes[row], size_of_row(tile));
    }
  }

  // c += a b: pairs of bf16 in rows of a and columns of b.
  void multiply(int c, int a, int b) {
    require_of_tiles(a != b && a != c && b != c, "#UD: tdpbf16ps of one tile twice");
    for (const int tile : {a, b, c}) check_words(tile);
    require_of_tiles(
        rows_[c] == rows_[a] && row_bytes_[c] == row_bytes_[b] && row_bytes_[a] == 4 * rows_[b],
        "#UD: tdpbf16ps of tiles that do not fit each other");
    // To nearest, with numbers below 2^-126 as zero on both sides, whatever the thread has set.
    constexpr unsigned kFlushBoth = 0x9fc0;
    const unsigned before = _mm_getcsr();
    _mm_setcsr(kFlushBoth);
    for (int row = 0; row < rows_[c]; ++row) multiply_row(row, c, a, b);
    _mm_setcsr(before);
    // Behind its columns and rows a result is zeros.
    for (int row = 0; row < kRows; ++row) {
      const auto kept = row < rows_[c] ? size_of_row(c) : 0;
      std::memset(data_[c].bytes[row] + kept, 0, kRowBytes - kept);
    }
  }

 private:
  struct alignas(64) Tile {
    std::byte bytes[kRows][kRowBytes];
  };

  void check(int tile) const {
    require_of_tiles(palette_ == 1, "#UD: tiles are not configured");
    require_of_tiles(rows_[tile] != 0, "#UD: this tile is not configured");
  }
  void check_words(int tile) const {
    check(tile);
    require_of_tiles(row_bytes_[tile] % 4 == 0, "#UD: a row is not of whole words");
  }
  [[nodiscard]] size_t size_of_row(int tile) const { return static_cast<size_t>(row_bytes_[tile]); }

  // One chain of fused multiply-adds over the even places and one over the odd ones, from zero;
  // their sum is added to the row of c. Not inlined: what is computed stays between the two
  // settings of the mode.
  __attribute__((noinline, target("avx2,fma"))) void multiply_row(int row, int c, int a, int b) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
    for (int half = 0; half < kRowBytes; half += kHalf) {
      __m256 even = _mm256_setzero_ps(), odd = even, sum;
      for (int k = 0; k < rows_[b]; ++k) {
        __m256i pairs;
        int pair;
        std::memcpy(&pairs, data_[b].bytes[k] + half, sizeof pairs);
        std::memcpy(&pair, data_[a].bytes[row] + 4 * k, sizeof pair);
        const __m256i both = _mm256_set1_epi32(pair);
        even = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(both, 16)),
                               _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)), even);
        odd = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(both, upper)),
                              _mm256_castsi256_ps(_mm256_and_si256(pairs, upper)), odd);
      }
      std::memcpy(&sum, data_[c].bytes[row] + half, sizeof sum);
      sum = _mm256_add_ps(sum, _mm256_add_ps(even, odd));
      std::memcpy(data_[c].bytes[row] + half, &sum, sizeof sum);
    }
  }

  static constexpr int kHalf = kRowBytes / 2;
  int palette_ = 0;
  int rows_[kCount] = {}, row_bytes_[kCount] = {};
  Tile data_[kCount] = {};
};

// What was carried out, by all threads together.
struct TileCounts {
  std::atomic<int64_t> configured{0}, released{0}, loaded{0}, stored{0}, cleared{0}, multiplied{0};
};

// One instruction of tiles: VEX with three bytes, opcode, ModRM, and what that asks for.
class TileInstruction {
 public:
  TileInstruction(const uint8_t* at, const greg_t* registers) : at_(at), registers_(registers) {
    while (is_ignored_prefix(*at_)) ++at_;
    require_of_tiles(at_[0] == 0xc4 && (at_[1] & 0x1f) == 2,
                     "this instruction is not one of tiles");
    vex_ = at_ + 1;
    opcode_ = at_[3];
    require_of_tiles((vex_[1] & 0x84) == 0, "#UD: not VEX.128.W0");
    at_ += 4;
    read_operand();
  }

  // Carries it out. Where the next one lies.
  const uint8_t* run(Tiles& tiles, TileCounts& counts) const {
    const int kind = opcode_ * 4 + (vex_[1] & 3);  // the last two bits: none, 66, F3, F2
    switch (kind) {
      case 0x49 * 4 + 0:
        return in_memory_ ? configure(tiles, counts) : release(tiles, counts);
      case 0x49 * 4 + 1:
        require_of_tiles(in_memory_ && reg_ == 0 && no_third(), "#UD: sttilecfg");
        tiles.store_configuration(address_);
        return at_;
      case 0x49 * 4 + 3:
        require_of_tiles(!in_memory_ && rm_ == 0 && no_third(), "#UD: tilezero");
        tiles.zero(tile_of_reg());
        ++counts.cleared;
        return at_;
      case 0x4b * 4 + 1:  // tileloaddt1
      case 0x4b * 4 + 3:
        require_of_tiles(in_memory_ && has_index_byte_ && no_third(), "#UD: tileloadd");
        tiles.load(tile_of_reg(), address_, stride_);
        ++counts.loaded;
        return at_;
      case 0x4b * 4 + 2:
        require_of_tiles(in_memory_ && has_index_byte_ && no_third(), "#UD: tilestored");
        tiles.store(tile_of_reg(), address_, stride_);
        ++counts.stored;
        return at_;
      case 0x5c * 4 + 2:
        require_of_tiles(!in_memory_ && rm_ < Tiles::kCount && third() < Tiles::kCount,
                         "#UD: tdpbf16ps");
        tiles.multiply(tile_of_reg(), rm_, third());
        ++counts.multiplied;
        return at_;
      default:
        refuse_tile_instruction("this instruction of tiles is not emulated");
    }
  }

 private:
  // Segments that are flat in 64-bit mode.
  static bool is_ignored_prefix(uint8_t byte) {
    return byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e;
  }
  // VEX holds the complement of the upper bits of register numbers, and of the third register.
  [[nodiscard]] int upper_bit(int bit) const { return (~vex_[0] >> bit & 1) << 3; }
  [[nodiscard]] int third() const { return ~(vex_[1] >> 3) & 15; }
  [[nodiscard]] bool no_third() const { return third() == 0; }
  [[nodiscard]] int tile_of_reg() const {
    require_of_tiles(reg_ < Tiles::kCount, "#UD: there are eight tiles");
    return reg_;
  }

  const uint8_t* configure(Tiles& tiles, TileCounts& counts) const {
    require_of_tiles(reg_ == 0 && no_third(), "#UD: ldtilecfg");
    tiles.configure(address_);
    ++counts.configured;
    return at_;
  }
  const uint8_t* release(Tiles& tiles, TileCounts& counts) const {
    require_of_tiles(reg_ == 0 && rm_ == 0 && no_third(), "#UD: tilerelease");
    tiles.release();
    ++counts.released;
    return at_;
  }

  [[nodiscard]] int64_t value_of(int number) const {
    constexpr int kPlaces[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                 REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                 REG_R12, REG_R13, REG_R14, REG_R15};
    return registers_[kPlaces[number]];
  }
  template <typename T>
  int64_t read() {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  // ModRM, the byte of base, index and scale, and the displacement.
  void read_operand() {
    const int modrm = *at_++, mode = modrm >> 6;
    reg_ = (modrm >> 3 & 7) | upper_bit(7);
    rm_ = (modrm & 7) | upper_bit(5);
    in_memory_ = mode != 3;
    if (!in_memory_) return;
    has_index_byte_ = (modrm & 7) == 4;
    int base = rm_;
    if (has_index_byte_) {
      const int sib = *at_++, index = (sib >> 3 & 7) | upper_bit(6);
      base = (sib & 7) | upper_bit(5);
      constexpr int kNone = 4;
      stride_ = index == kNone ? 0 : value_of(index) * (int64_t{1} << (sib >> 6));
    }
    const bool no_base = mode == 0 && (base & 7) == 5;
    int64_t address = no_base ? 0 : value_of(base);
    if (mode == 1) address += read<int8_t>();
    if (mode == 2 || no_base) address += read<int32_t>();
    // Without the byte it is relative to the next instruction; nothing follows the displacement.
    if (no_base && !has_index_byte_) address += reinterpret_cast<int64_t>(at_);
    address_ = reinterpret_cast<std::byte*>(address);
  }

  const uint8_t* at_;
  const greg_t* registers_;
  const uint8_t* vex_ = nullptr;
  int opcode_ = 0, reg_ = 0, rm_ = 0;
  bool in_memory_ = false, has_index_byte_ = false;
  std::byte* address_ = nullptr;
  int64_t stride_ = 0;
};

// Emulates while it lives, in all threads. One at a time.
class TileEmulator {
 public:
  TileEmulator() {
    struct sigaction action {};
    action.sa_sigaction = on_illegal;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGILL, &action, &before_) != 0) refuse_tile_instruction("sigaction failed");
    for (auto* count : {&counts().configured, &counts().released, &counts().loaded,
                        &counts().stored, &counts().cleared, &counts().multiplied}) {
      *count = 0;
    }
  }
  ~TileEmulator() { sigaction(SIGILL, &before_, nullptr); }
  TileEmulator(const TileEmulator&) = delete;
  TileEmulator& operator=(const TileEmulator&) = delete;

  static TileCounts& counts() {
    static constinit TileCounts all;
    return all;
  }
  // Those of the calling thread.
  static Tiles& tiles() {
    static constinit thread_local Tiles mine;
    return mine;
  }

 private:
  static void on_illegal(int /*signal*/, siginfo_t* /*info*/, void* context) {
    auto* const thread = static_cast<ucontext_t*>(context);
    greg_t* const registers = thread->uc_mcontext.gregs;
    const TileInstruction instruction(reinterpret_cast<const uint8_t*>(registers[REG_RIP]),
                                      registers);
    registers[REG_RIP] = reinterpret_cast<greg_t>(instruction.run(tiles(), counts()));
  }

  struct sigaction before_ {};
};

}  // namespace tessera::kernels::testing

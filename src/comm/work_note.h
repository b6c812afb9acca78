// What a stream of a rank is at. Its thread writes it before every instruction, which costs a few
// stores; another process reads it while the rank runs or hangs, and makes do with what it finds.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

class alignas(64) WorkNote {
 public:
  static constexpr int kStreams = 4;  // of a rank, that have a note each

  void set_stream(std::string_view name);  // at most 8 bytes of it
  // Long names lose their end. Micro-batch -1: none.
  void begin(int64_t instruction, int micro_batch, std::string_view op, std::string_view name);
  void end() { place_.store(0, std::memory_order_release); }
  // Instructions that it has begun.
  [[nodiscard]] uint64_t begun() const { return begun_.load(std::memory_order_relaxed); }
  // "compute: instruction 17, linear 'layers.1.up', micro-batch 2"; empty: between two steps.
  [[nodiscard]] std::string text() const;

 private:
  static constexpr size_t kWords = 11;

  // Zeroed memory is a note that says nothing.
  std::atomic<uint64_t> place_{0};  // the micro-batch and 1, the instruction and 1: 32 bits each
  std::atomic<uint64_t> stream_{0};
  std::array<std::atomic<uint64_t>, kWords> what_{};
  std::atomic<uint64_t> begun_{0};
};

}  // namespace tessera

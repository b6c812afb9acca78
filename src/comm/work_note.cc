#include "comm/work_note.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text/printable.h"

namespace tessera {
namespace {

constexpr size_t kMostOfOp = 24;

}  // namespace

void WorkNote::set_stream(std::string_view name) {
  uint64_t word = 0;
  std::memcpy(&word, name.data(), std::min(name.size(), sizeof(word)));
  stream_.store(word, std::memory_order_relaxed);
}

void WorkNote::begin(int64_t instruction, int micro_batch, std::string_view op,
                     std::string_view name) {
  std::array<uint64_t, kWords> words{};
  char* const text = reinterpret_cast<char*>(words.data());
  op = op.substr(0, kMostOfOp);
  name = name.substr(0, sizeof(words) - kMostOfOp - 3);  // a blank and two quotes
  char* at = std::copy(op.begin(), op.end(), text);
  *at++ = ' ';
  *at++ = '\'';
  at = std::copy(name.begin(), name.end(), at);
  *at = '\'';
  for (size_t i = 0; i < kWords; ++i) what_[i].store(words[i], std::memory_order_relaxed);
  const auto place = static_cast<uint64_t>(micro_batch + 1) << 32 |
                     static_cast<uint64_t>(static_cast<uint32_t>(instruction + 1));
  place_.store(place, std::memory_order_release);
  begun_.store(begun_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

std::string WorkNote::text() const {
  const uint64_t place = place_.load(std::memory_order_acquire);
  if (place == 0) return "";
  std::array<uint64_t, kWords + 1> words{};  // a zero at the end
  for (size_t i = 0; i < kWords; ++i) words[i] = what_[i].load(std::memory_order_relaxed);
  const std::array<uint64_t, 2> stream = {stream_.load(std::memory_order_relaxed), 0};
  std::string text =
      fmt::format("{}: instruction {}, {}", printable(reinterpret_cast<const char*>(stream.data())),
                  static_cast<int64_t>(place & 0xffffffff) - 1,
                  printable(reinterpret_cast<const char*>(words.data())));
  if (place >> 32 > 0) text += fmt::format(", micro-batch {}", (place >> 32) - 1);
  return text;
}

}  // namespace tessera

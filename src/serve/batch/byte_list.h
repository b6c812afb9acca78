// Numbers as bytes, little-endian, and back with every length checked before memory is taken.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera::serve {

static_assert(std::endian::native == std::endian::little);

class ByteList {
 public:
  template <typename T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    append(&value, sizeof(T));
  }
  void put_count(size_t count) { put(static_cast<uint32_t>(count)); }
  template <typename T>
  void put_all(const std::vector<T>& values) {
    put_count(values.size());
    append(values.data(), values.size() * sizeof(T));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* data, size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  std::vector<std::byte> bytes_;
};

// Reads from front to back. `what` is for the Error where the bytes end too early or a list is
// longer than it may be.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  T get(std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  size_t count(std::string_view what, size_t most) {
    const auto count = get<uint32_t>(what);
    require(count <= most, "{}: {}, at most {} are allowed", what, count, most);
    return count;
  }
  template <typename T>
  std::vector<T> get_all(std::string_view what, size_t most) {
    const size_t number = count(what, most);
    const auto bytes = take(number * sizeof(T), what);
    std::vector<T> values(number);
    if (number > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  void end() const { require(rest_.empty(), "{} bytes too many", rest_.size()); }

 private:
  std::span<const std::byte> take(size_t size, std::string_view what) {
    require(size <= rest_.size(), "the bytes end in {}: {} wanted, {} left", what, size,
            rest_.size());
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  std::span<const std::byte> rest_;
};

}  // namespace tessera::serve

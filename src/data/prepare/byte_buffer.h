// Bytes that grow without being filled with zeros first, and whose memory is used again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace tessera {

class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] size_t capacity() const { return capacity_; }
  [[nodiscard]] char* data() { return data_.get(); }
  [[nodiscard]] std::string_view text() const { return {data_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span<const char>(data_.get(), size_));
  }

  void reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    std::unique_ptr<char[]> larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (size_ > 0) std::memcpy(larger.get(), data_.get(), size_);
    data_ = std::move(larger);
    capacity_ = capacity;
  }
  // What is new of them has to be written by the caller. At most the capacity.
  void set_size(size_t size) { size_ = size; }
  void append(std::string_view more) {
    if (more.empty()) return;
    if (size_ + more.size() > capacity_) reserve(std::max(size_ + more.size(), 2 * capacity_));
    std::memcpy(data_.get() + size_, more.data(), more.size());
    size_ += more.size();
  }
  // Empty, and without more memory than that.
  void reset(size_t most_capacity) {
    size_ = 0;
    if (capacity_ <= most_capacity) return;
    data_.reset();
    capacity_ = 0;
  }

 private:
  std::unique_ptr<char[]> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace tessera

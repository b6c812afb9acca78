// One block of memory, allocated once, on huge pages where the system gives them, zeroed, and
// touched by the thread that creates it. Offsets into it are decided by the compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tensor/tensor.h"

namespace tessera {

class HostArena {
 public:
  HostArena() = default;
  // Throws Error naming `name` and the size when the system refuses.
  HostArena(std::string name, int64_t size_bytes);
  // Memory that somebody else made, aligned to 64 bytes and zeroed; `release` gives it back.
  HostArena(std::string name, std::byte* data, int64_t size_bytes, std::function<void()> release);
  ~HostArena();
  HostArena(HostArena&& other) noexcept;
  HostArena& operator=(HostArena&& other) noexcept;
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  [[nodiscard]] int64_t size_bytes() const { return size_bytes_; }  // as asked for
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  void swap(HostArena& other) noexcept;

  std::string name_;
  std::byte* mapping_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  std::function<void()> release_;
};

}  // namespace tessera

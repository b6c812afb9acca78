// Memory that a body needs while it runs, carved out of the workspace of its context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/workspace.h"

namespace tessera::kernels {

// Hands out aligned pieces of a workspace. Refuses one smaller than `needed` bytes at once.
class Scratch {
 public:
  Scratch(const char* op, std::span<std::byte> workspace, int64_t needed)
      : op_(op), workspace_(workspace) {
    TESSERA_CHECK(static_cast<int64_t>(workspace.size()) >= needed,
                  "{}: workspace of {} bytes, needs {}", op, workspace.size(), needed);
  }

  template <typename T>
  T* take(int64_t elements) {
    const int64_t bytes = elements * static_cast<int64_t>(sizeof(T));
    const int64_t begin = used_;
    used_ += (bytes + workspace::kAlignBytes - 1) / workspace::kAlignBytes * workspace::kAlignBytes;
    TESSERA_CHECK(used_ <= static_cast<int64_t>(workspace_.size()),
                  "{}: takes {} bytes of a workspace of {}", op_, used_, workspace_.size());
    return reinterpret_cast<T*>(workspace_.data() + begin);
  }

 private:
  const char* op_;
  std::span<std::byte> workspace_;
  int64_t used_ = 0;
};

// Member i's equal share of a workspace.
inline std::span<std::byte> member_part(std::span<std::byte> workspace, int64_t bytes, int member) {
  return workspace.subspan(static_cast<size_t>(bytes * member), static_cast<size_t>(bytes));
}

}  // namespace tessera::kernels

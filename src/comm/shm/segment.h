// The part of the shared memory that one rank allocates from. Pages are taken from the system when
// a block is allocated, so that a lack of memory is an error here and not a fault later; on huge
// pages where the system gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace tessera {

class ShmSegment {
 public:
  // `base` is mapped at byte `offset` of the file `fd`. Blocks of different ranks start at
  // different places modulo 2^28 (`stagger` pages), because streams that agree there evict each
  // other.
  ShmSegment(int fd, std::byte* base, int64_t offset, int64_t size_bytes, int stagger);

  // Zeroed, aligned to a page. Throws Error naming `name` when the system has no memory.
  std::byte* allocate(const std::string& name, int64_t size_bytes);
  void release(std::byte* block);

 private:
  void take_pages(const std::string& name, int64_t at, int64_t size_bytes);
  [[nodiscard]] int64_t find_place(int64_t size_bytes) const;

  int fd_;
  std::byte* base_;
  int64_t offset_;
  int64_t size_bytes_;
  int stagger_;
  std::mutex mutex_;
  std::map<int64_t, int64_t> blocks_;  // place -> end, of what is allocated; guarded by mutex_
  int64_t num_allocated_ = 0;
};

}  // namespace tessera

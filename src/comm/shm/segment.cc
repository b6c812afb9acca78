#include "comm/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/rounding.h"
#include "comm/shm/host_memory.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace tessera {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kStaggers = 64;

}  // namespace

ShmSegment::ShmSegment(int fd, std::byte* base, int64_t offset, int64_t size_bytes, int stagger)
    : fd_(fd), base_(base), offset_(offset), size_bytes_(size_bytes), stagger_(stagger) {}

// First fit. Every block begins a different odd number of pages after a huge page.
int64_t ShmSegment::find_place(int64_t size_bytes) const {
  const int64_t pages = (stagger_ * 10 + num_allocated_ * 2) % kStaggers + 1;
  int64_t at = 0;
  for (const auto& [begin, end] : blocks_) {
    const int64_t place = round_up(at, kHugePage) + pages * kPage;
    if (place + size_bytes <= begin) return place;
    at = end;
  }
  return round_up(at, kHugePage) + pages * kPage;
}

std::byte* ShmSegment::allocate(const std::string& name, int64_t size_bytes) {
  TESSERA_CHECK(size_bytes > 0, "'{}' of {} bytes", name, size_bytes);
  const std::scoped_lock lock(mutex_);
  require(size_bytes <= size_bytes_,
          "cannot allocate {} bytes for '{}': this rank may share {} bytes; use a smaller model, "
          "micro-batch or sequence, or more ranks",
          size_bytes, name, size_bytes_);
  const int64_t rounded = round_up(size_bytes, kPage);
  const int64_t at = find_place(rounded);
  require(at + rounded <= size_bytes_,
          "cannot allocate {} bytes for '{}': {} of the {} bytes that this rank may share are in "
          "use",
          size_bytes, name, at, size_bytes_);
  take_pages(name, at, rounded);
  blocks_[at] = at + rounded;
  ++num_allocated_;
  return base_ + at;
}

void ShmSegment::take_pages(const std::string& name, int64_t at, int64_t size_bytes) {
  const int64_t available = available_memory_bytes();
  require(size_bytes <= available,
          "cannot allocate {} bytes for '{}': the machine has {} left; use a smaller model, "
          "micro-batch or sequence, or more ranks",
          size_bytes, name, available);
  int status = 0;
  do {
    status = fallocate(fd_, 0, offset_ + at, size_bytes);
  } while (status != 0 && errno == EINTR);
  require(status == 0, "cannot allocate {} bytes of shared memory for '{}': {}", size_bytes, name,
          std::strerror(errno));
  // Only advice: without huge pages the memory is slower, not wrong.
  const int64_t begin = round_up(at, kHugePage);
  const int64_t end = (at + size_bytes) / kHugePage * kHugePage;
  if (begin < end) {
    (void)madvise(base_ + begin, static_cast<size_t>(end - begin), MADV_COLLAPSE);
  }
  for (int64_t page = at; page < at + size_bytes; page += kPage) {
    *static_cast<volatile std::byte*>(base_ + page) = std::byte{0};
  }
}

void ShmSegment::release(std::byte* block) {
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(block - base_);
  TESSERA_CHECK(found != blocks_.end(), "a block that was not allocated here");
  (void)fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_ + found->first,
                  found->second - found->first);
  blocks_.erase(found);
}

}  // namespace tessera

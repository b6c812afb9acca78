#include "tensor/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tessera {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;
constexpr int64_t kMaxStaggerPages = 128;

// Buffers whose addresses are equal modulo 2^28 and more evict each other from the cache, so every
// arena starts an odd number of pages after a huge page. The number is a hash of the address that
// differs between any two arenas a small multiple of 2^28 bytes apart.
int64_t stagger_bytes(uintptr_t base) {
  const uint64_t hash = (base / kHugePageBytes) * 0x9E3779B97F4A7C15ULL;
  return (static_cast<int64_t>(hash >> 58) * 2 + 1) * kPageBytes;
}

}  // namespace

HostArena::HostArena(std::string name, int64_t size_bytes)
    : name_(std::move(name)), size_bytes_(size_bytes) {
  TESSERA_CHECK(size_bytes >= 0, "arena '{}' of {} bytes", name_, size_bytes);
  if (size_bytes == 0) return;
  const int64_t slack = kHugePageBytes + kMaxStaggerPages * kPageBytes;
  const int64_t pages = (size_bytes - 1) / kPageBytes + 1;
  const bool representable = pages < (INT64_MAX - slack) / kPageBytes;
  void* mapping = MAP_FAILED;
  if (representable) {
    mapped_bytes_ = pages * kPageBytes + slack;
    mapping = mmap(nullptr, static_cast<size_t>(mapped_bytes_), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else {
    errno = ENOMEM;
  }
  require(mapping != MAP_FAILED,
          "cannot allocate {} bytes for '{}': {}; use a smaller model, micro-batch or sequence, or "
          "more ranks",
          size_bytes, name_, std::strerror(errno));
  mapping_ = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<uintptr_t>(mapping_);
  const auto aligned = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  data_ = mapping_ + (aligned - address) + stagger_bytes(aligned);
  // Only advice: without huge pages the arena is slower, not wrong.
  (void)madvise(mapping, static_cast<size_t>(mapped_bytes_), MADV_HUGEPAGE);
  for (int64_t offset = 0; offset < size_bytes; offset += kPageBytes) {
    *static_cast<volatile std::byte*>(data_ + offset) = std::byte{0};
  }
}

HostArena::HostArena(std::string name, std::byte* data, int64_t size_bytes,
                     std::function<void()> release)
    : name_(std::move(name)), data_(data), size_bytes_(size_bytes), release_(std::move(release)) {}

HostArena::~HostArena() {
  if (release_) release_();
  if (mapping_ != nullptr) munmap(mapping_, static_cast<size_t>(mapped_bytes_));
}

HostArena::HostArena(HostArena&& other) noexcept { swap(other); }

HostArena& HostArena::operator=(HostArena&& other) noexcept {
  HostArena moved(std::move(other));
  swap(moved);
  return *this;
}

void HostArena::swap(HostArena& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(mapping_, other.mapping_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(release_, other.release_);
}

}  // namespace tessera

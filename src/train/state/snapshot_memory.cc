#include "train/state/snapshot_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/crc32c.h"
#include "base/error.h"

namespace tessera {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kBlock = int64_t{1} << 20;
constexpr uint32_t kSealed = 0x5EA1ED01;

int64_t in_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
size_t num_blocks(int64_t bytes) { return static_cast<size_t>((bytes + kBlock - 1) / kBlock); }

}  // namespace

// What is said of one place. Behind it lie the sums of the blocks, then the note.
struct SnapshotMemory::Head {
  std::atomic<uint32_t> sealed;  // kSealed, or nothing here counts
  uint32_t sum;                  // of the rest, of the sums and of the note
  uint64_t key;
  uint64_t generation;
  int64_t step;
  int64_t note_bytes;
};

namespace {

// What a place takes beside its copy.
template <typename Head>
int64_t head_bytes(int64_t copy_bytes) {
  return in_pages(static_cast<int64_t>(sizeof(Head) + sizeof(uint32_t) * num_blocks(copy_bytes) +
                                       SnapshotMemory::kMostNoteBytes));
}

HostArena map_file(int fd, int64_t bytes) {
  struct stat status {};
  const bool sized =
      ::fstat(fd, &status) == 0 && (status.st_size == bytes || ::ftruncate(fd, bytes) == 0);
  void* memory = !sized ? MAP_FAILED
                        : ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                                 MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    throw Error(fmt::format("cannot have {} bytes of memory for snapshots: {}; set "
                            "checkpoint.memory_every = 0",
                            bytes, std::strerror(errno)),
                ExitCode::kDoesNotFit);
  }
  return {"snapshots", static_cast<std::byte*>(memory), bytes,
          [memory, bytes] { ::munmap(memory, static_cast<size_t>(bytes)); }};
}

}  // namespace

int64_t SnapshotMemory::bytes_for(int64_t copy_bytes) {
  return static_cast<int64_t>(kPlaces) * (head_bytes<Head>(copy_bytes) + in_pages(copy_bytes));
}

SnapshotMemory::SnapshotMemory(int fd, std::span<const int64_t> copy_bytes, int rank, uint64_t key)
    : copy_bytes_(copy_bytes.begin(), copy_bytes.end()),
      rank_(static_cast<size_t>(rank)),
      key_(key) {
  int64_t all = 0;
  for (const int64_t bytes : copy_bytes_) {
    begins_.push_back(all);
    all += bytes_for(bytes);
  }
  memory_ = map_file(fd, all);
  // Room is asked for by the rank that uses it, before it is relied on.
  if (const int failure = ::posix_fallocate(fd, begins_[rank_], bytes()); failure != 0) {
    throw Error(fmt::format("cannot have {} bytes of memory for snapshots of rank {}: {}; set "
                            "checkpoint.memory_every = 0",
                            bytes(), rank, std::strerror(failure)),
                ExitCode::kDoesNotFit);
  }
  touch();
}

// Page faults of the first copy would be part of a step.
void SnapshotMemory::touch() const {
  std::byte* const begin = region(rank_);
  for (int64_t at = 0; at < bytes(); at += kPage) {
    volatile std::byte* const page = begin + at;
    *page = *page;
  }
}

SnapshotMemory::Head& SnapshotMemory::head(size_t rank, size_t place) const {
  const int64_t at = static_cast<int64_t>(place) * head_bytes<Head>(copy_bytes_[rank]);
  return *reinterpret_cast<Head*>(region(rank) + at);
}

std::span<uint32_t> SnapshotMemory::sums(size_t rank, size_t place) const {
  auto* const behind = reinterpret_cast<std::byte*>(&head(rank, place)) + sizeof(Head);
  return {reinterpret_cast<uint32_t*>(behind), num_blocks(copy_bytes_[rank])};
}

std::byte* SnapshotMemory::note_of(size_t rank, size_t place) const {
  const std::span<uint32_t> all = sums(rank, place);
  return reinterpret_cast<std::byte*>(all.data() + all.size());
}

std::byte* SnapshotMemory::copy_of(size_t rank, size_t place) const {
  const int64_t bytes = copy_bytes_[rank];
  return region(rank) + static_cast<int64_t>(kPlaces) * head_bytes<Head>(bytes) +
         static_cast<int64_t>(place) * in_pages(bytes);
}

int64_t SnapshotMemory::copies_bytes() const {
  return static_cast<int64_t>(kPlaces) * in_pages(copy_bytes_[rank_]);
}

std::span<const std::byte> SnapshotMemory::block(size_t rank, size_t place, size_t index) const {
  const int64_t begin = static_cast<int64_t>(index) * kBlock;
  const int64_t size = std::min(kBlock, copy_bytes_[rank] - begin);
  return {copy_of(rank, place) + begin, static_cast<size_t>(size)};
}

uint32_t SnapshotMemory::head_sum(size_t rank, size_t place) const {
  const Head& one = head(rank, place);
  const auto* const begin = reinterpret_cast<const std::byte*>(&one.key);
  const auto* const end =
      note_of(rank, place) + std::clamp<int64_t>(one.note_bytes, 0, kMostNoteBytes);
  return crc32c(std::span<const std::byte>(begin, end));
}

void SnapshotMemory::open(size_t place) { head(rank_, place).sealed.store(0); }

void SnapshotMemory::seal(size_t place, const SnapshotName& name, std::string_view note) {
  require(note.size() <= kMostNoteBytes, "the state of a snapshot has {} bytes, more than {}",
          note.size(), kMostNoteBytes);
  Head& one = head(rank_, place);
  const std::span<uint32_t> all = sums(rank_, place);
  for (size_t i = 0; i < all.size(); ++i) all[i] = crc32c(block(rank_, place, i));
  one.key = key_;
  one.generation = name.generation;
  one.step = name.step;
  one.note_bytes = static_cast<int64_t>(note.size());
  std::memcpy(note_of(rank_, place), note.data(), note.size());
  one.sum = head_sum(rank_, place);
  one.sealed.store(kSealed, std::memory_order_release);
}

const SnapshotMemory::Head* SnapshotMemory::counting(size_t rank, size_t place) const {
  const Head& one = head(rank, place);
  const bool counts = one.sealed.load(std::memory_order_acquire) == kSealed && one.key == key_;
  return counts ? &one : nullptr;
}

std::string SnapshotMemory::problem_of(size_t place) const {
  const Head& one = head(rank_, place);
  const bool good = one.note_bytes >= 0 && one.note_bytes <= int64_t{kMostNoteBytes} &&
                    one.sum == head_sum(rank_, place);
  if (!good) return "its head has another sum than when it was sealed";
  const std::span<const uint32_t> all = sums(rank_, place);
  for (size_t i = 0; i < all.size(); ++i) {
    if (crc32c(block(rank_, place, i)) == all[i]) continue;
    return fmt::format("block {} has another sum than when it was sealed", i);
  }
  return "";
}

std::vector<SnapshotMemory::Sealed> SnapshotMemory::sealed() const {
  std::vector<Sealed> found;
  for (size_t place = 0; place < kPlaces; ++place) {
    const Head* const one = counting(rank_, place);
    if (one != nullptr) found.push_back({{one->step, one->generation}, problem_of(place)});
  }
  return found;
}

const std::byte* SnapshotMemory::find(size_t rank, const SnapshotName& name) const {
  for (size_t place = 0; place < kPlaces; ++place) {
    const Head* const one = counting(rank, place);
    const bool wanted = one != nullptr && SnapshotName{one->step, one->generation} == name;
    if (wanted) return copy_of(rank, place);
  }
  return nullptr;
}

std::string SnapshotMemory::note(size_t rank, const SnapshotName& name) const {
  for (size_t place = 0; place < kPlaces; ++place) {
    const Head* const one = counting(rank, place);
    if (one == nullptr || SnapshotName{one->step, one->generation} != name) continue;
    return {reinterpret_cast<const char*>(note_of(rank, place)),
            static_cast<size_t>(one->note_bytes)};
  }
  return "";
}

}  // namespace tessera

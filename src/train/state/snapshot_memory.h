// Copies of the state of all ranks of a run, in a file in memory that whoever starts the ranks
// keeps open: when a rank dies, what it copied last is still there. Every rank has two places that
// it fills in turn. What is in a place counts only once it is sealed, with a sum of every block,
// and until the place is opened again; so whatever ends a rank, the place that it did not fill just
// then is whole.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/arena.h"

namespace tessera {

// Copies of all ranks with one name are of one moment.
struct SnapshotName {
  int64_t step = 0;
  uint64_t generation = 0;  // of the ranks that made it
  friend auto operator<=>(const SnapshotName&, const SnapshotName&) = default;
};

class SnapshotMemory {
 public:
  static constexpr size_t kPlaces = 2;

  // Bytes that a rank takes for two copies of so many bytes each.
  static int64_t bytes_for(int64_t copy_bytes);

  // `fd`: as earlier ranks of this host have left the file, or new. `copy_bytes`: by rank, the same
  // on all. `key`: what the copies are of; those with another key do not count. Throws Error with
  // ExitCode::kDoesNotFit where the memory is not to be had.
  SnapshotMemory(int fd, std::span<const int64_t> copy_bytes, int rank, uint64_t key);
  SnapshotMemory(const SnapshotMemory&) = delete;
  SnapshotMemory& operator=(const SnapshotMemory&) = delete;

  [[nodiscard]] int64_t bytes() const { return bytes_for(copy_bytes_[rank_]); }  // of this rank
  // Both copies of this rank, one behind the other.
  [[nodiscard]] std::byte* copies() const { return copy_of(rank_, 0); }
  [[nodiscard]] int64_t copies_bytes() const;
  [[nodiscard]] std::byte* copy(size_t place) const { return copy_of(rank_, place); }

  // From now on what the place holds does not count.
  void open(size_t place);
  // What it holds now is whole. `note` goes with it, at most kMostNoteBytes.
  static constexpr size_t kMostNoteBytes = size_t{64} << 10;
  void seal(size_t place, const SnapshotName& name, std::string_view note);

  // What this rank has sealed, every byte compared with its sum; `problem` says what is wrong with
  // one that cannot be used.
  struct Sealed {
    SnapshotName name;
    std::string problem = {};
  };
  [[nodiscard]] std::vector<Sealed> sealed() const;

  // The copy of any rank, after that has said that it is whole.
  [[nodiscard]] const std::byte* find(size_t rank, const SnapshotName& name) const;
  [[nodiscard]] std::string note(size_t rank, const SnapshotName& name) const;

 private:
  struct Head;
  [[nodiscard]] std::byte* region(size_t rank) const { return memory_.data() + begins_[rank]; }
  [[nodiscard]] Head& head(size_t rank, size_t place) const;
  [[nodiscard]] std::span<uint32_t> sums(size_t rank, size_t place) const;
  [[nodiscard]] std::byte* note_of(size_t rank, size_t place) const;
  [[nodiscard]] std::byte* copy_of(size_t rank, size_t place) const;
  [[nodiscard]] std::span<const std::byte> block(size_t rank, size_t place, size_t index) const;
  [[nodiscard]] uint32_t head_sum(size_t rank, size_t place) const;
  // Nothing where no copy counts.
  [[nodiscard]] const Head* counting(size_t rank, size_t place) const;
  [[nodiscard]] std::string problem_of(size_t place) const;
  void touch() const;

  std::vector<int64_t> copy_bytes_;
  std::vector<int64_t> begins_;  // of the regions of ranks
  size_t rank_;
  uint64_t key_;
  HostArena memory_;  // of all ranks
};

}  // namespace tessera

#include "train/save/snapshot_parts.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "train/control.h"

namespace tessera {
namespace {

// What goes to each rank, one behind the other.
template <typename T>
struct Outgoing {
  std::vector<T> data = {};
  std::vector<int64_t> counts = {};
};

template <typename T>
Outgoing<T> exchange(Communicator& control, const Outgoing<T>& mine, DType type) {
  const auto ranks = static_cast<size_t>(control.size());
  Outgoing<T> theirs{.counts = std::vector<int64_t>(ranks)};
  control.all_to_all(mine.counts.data(), theirs.counts.data(), 1, DType::kI64);
  const int64_t all = std::accumulate(theirs.counts.begin(), theirs.counts.end(), int64_t{0});
  theirs.data.resize(static_cast<size_t>(all));
  control.all_to_all_v(mine.data.data(), mine.counts, theirs.data.data(), theirs.counts, type);
  return theirs;
}

// Pairs of numbers: where it begins, and how many bytes.
Outgoing<int64_t> questions(std::span<const WantedPart> parts, int ranks) {
  Outgoing<int64_t> asked{.counts = std::vector<int64_t>(static_cast<size_t>(ranks))};
  for (int rank = 0; rank < ranks; ++rank) {
    for (const WantedPart& part : parts) {
      if (part.rank != rank) continue;
      asked.data.insert(asked.data.end(), {part.first, part.bytes});
      asked.counts[static_cast<size_t>(rank)] += 2;
    }
  }
  return asked;
}

Outgoing<std::byte> answers(const Outgoing<int64_t>& asked, std::span<const std::byte> mine) {
  Outgoing<std::byte> given{.counts = std::vector<int64_t>(asked.counts.size())};
  size_t next = 0;
  for (size_t rank = 0; rank < asked.counts.size(); ++rank) {
    for (int64_t i = 0; i < asked.counts[rank]; i += 2) {
      const int64_t first = asked.data[next++];
      const int64_t bytes = asked.data[next++];
      TESSERA_CHECK(first >= 0 && bytes >= 0 && first <= static_cast<int64_t>(mine.size()) - bytes,
                    "bytes {} to {} of a copy of {}", first, first + bytes, mine.size());
      const auto begin = mine.begin() + first;
      given.data.insert(given.data.end(), begin, begin + bytes);
      given.counts[rank] += bytes;
    }
  }
  return given;
}

void exchange_some(Communicator& control, std::span<const WantedPart> parts,
                   std::span<const std::byte> mine) {
  const Outgoing<int64_t> asked = exchange(control, questions(parts, control.size()), DType::kI64);
  const Outgoing<std::byte> got = exchange(control, answers(asked, mine), DType::kU8);
  const std::byte* data = got.data.data();
  for (int rank = 0; rank < control.size(); ++rank) {
    for (const WantedPart& part : parts) {
      if (part.rank != rank) continue;
      part.take(data);
      data += part.bytes;
    }
  }
}

}  // namespace

void exchange_parts(Communicator& control, const std::vector<WantedPart>& wanted,
                    std::span<const std::byte> mine, int64_t at_once) {
  size_t done = 0;
  while (largest_of_ranks(control, static_cast<int64_t>(wanted.size() - done)) > 0) {
    size_t end = done;
    int64_t bytes = 0;
    while (end < wanted.size() && (end == done || bytes + wanted[end].bytes <= at_once)) {
      bytes += wanted[end++].bytes;
    }
    exchange_some(control, std::span(wanted).subspan(done, end - done), mine);
    done = end;
  }
}

}  // namespace tessera

#include "comm/shared/movement.h"

#include <algorithm>
#include <cstring>

#include "collective/slices.h"
#include "comm/copy.h"
#include "comm/reduce.h"

namespace tessera::shared {
namespace {

constexpr size_t kSwapBytes = 4096;

class Mover {
 public:
  Mover(const Movement& movement, const GroupView& group)
      : m_(movement), group_(group), size_(group.size()), element_(size_bytes(movement.dtype)) {}

  void run() {
    switch (m_.op) {
      case CollectiveOp::kAllReduce:
        return m_.one_shot ? reduce_all_of_it() : reduce_slice(m_.out);
      case CollectiveOp::kReduce: {
        if (!m_.one_shot) return reduce_slice(m_.out.subspan(static_cast<size_t>(m_.root), 1));
        if (m_.rank == m_.root) reduce_all_of_it();
        return;
      }
      case CollectiveOp::kReduceScatter:
        return reduce_block();
      case CollectiveOp::kAllGather:
        return copy_from_all(/*block=*/0);
      case CollectiveOp::kAllToAll:
      case CollectiveOp::kAllToAllV:
        return m_.any_in_place ? exchange_pairs() : copy_from_all(m_.rank);
      case CollectiveOp::kBroadcast:
        if (m_.rank != m_.root) read(m_.root, 0, out(0), m_.begin, m_.end);
        return;
      case CollectiveOp::kScatter:
        return read(m_.root, m_.rank, out(0), m_.begin, m_.end);
      case CollectiveOp::kGather:
        return m_.one_shot ? gather_from_all() : store_at_root();
      default:
        return;
    }
  }

 private:
  [[nodiscard]] const Side& in_of(int peer) const { return m_.in[static_cast<size_t>(peer)]; }
  [[nodiscard]] std::byte* out(int block) const {
    return m_.out[static_cast<size_t>(m_.rank)].at(block, m_.begin, element_);
  }

  // What all ranks get from the call together.
  [[nodiscard]] int64_t result_bytes() const {
    const int64_t block = (m_.end - m_.begin) * element_;
    switch (m_.op) {
      case CollectiveOp::kReduce:
        return block;
      case CollectiveOp::kBroadcast:
        return block * (size_ - 1);
      case CollectiveOp::kAllGather:
      case CollectiveOp::kAllToAll:
      case CollectiveOp::kAllToAllV:
        return block * size_ * size_;
      default:
        return block * size_;
    }
  }

  void count_read(int from, int64_t bytes) {
    if (from != m_.rank) group_.count_traffic(m_.rank, from, m_.op, bytes);
  }
  void count_stored(int64_t bytes) { group_.count_traffic(m_.rank, m_.rank, m_.op, bytes); }

  void read(int from, int block, std::byte* to, int64_t begin, int64_t end) {
    const std::byte* source = in_of(from).at(block, begin, element_);
    const int64_t bytes = (end - begin) * element_;
    if (bytes <= 0) return;
    copy(to, source, bytes);
    count_read(from, bytes);
  }

  void copy(std::byte* to, const std::byte* from, int64_t bytes) {
    if (from == to) return;
    if (m_.device != nullptr) return m_.device->copy(to, from, bytes);
    copy_bytes(to, from, bytes, result_bytes());
  }

  // Each rank begins with its own block, so that not all read from the same peer at once.
  void copy_from_all(int block) {
    for (int step = 0; step < size_; ++step) {
      const int peer = (m_.rank + step) % size_;
      int64_t end = m_.end;
      if (!m_.lengths.empty()) end = std::min(end, m_.lengths[static_cast<size_t>(peer)]);
      if (end > m_.begin) read(peer, block, out(peer), m_.begin, end);
    }
  }

  void gather_from_all() {
    if (m_.rank == m_.root) copy_from_all(/*block=*/0);
  }

  void store_at_root() {
    std::byte* to = m_.out[static_cast<size_t>(m_.root)].at(m_.rank, m_.begin, element_);
    const std::byte* from = in_of(m_.rank).at(0, m_.begin, element_);
    const int64_t bytes = (m_.end - m_.begin) * element_;
    if (bytes <= 0) return;
    copy(to, from, bytes);
    if (m_.rank != m_.root) count_stored(bytes);
  }

  // A pair is moved by the rank that is an odd distance below the other, or an even one above it.
  [[nodiscard]] bool moves_pair(int peer) const {
    const bool odd = (peer - m_.rank) % 2 != 0;
    return peer > m_.rank ? odd : !odd;
  }

  void exchange_pairs() {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == m_.rank) {
        read(peer, peer, out(peer), m_.begin, m_.end);
      } else if (moves_pair(peer)) {
        exchange_with(peer);
      }
    }
  }

  void exchange_with(int peer) {
    const int64_t bytes = (m_.end - m_.begin) * element_;
    const std::byte* mine = in_of(m_.rank).at(peer, m_.begin, element_);
    const std::byte* theirs = in_of(peer).at(m_.rank, m_.begin, element_);
    std::byte* to_them = m_.out[static_cast<size_t>(peer)].at(m_.rank, m_.begin, element_);
    std::byte* to_me = out(peer);
    if (m_.device != nullptr) {
      m_.device->exchange(mine, to_them, theirs, to_me, bytes);
    } else {
      exchange_on_host(mine, to_them, theirs, to_me, bytes);
    }
    count_read(peer, bytes);
    count_stored(bytes);
  }

  static void exchange_on_host(const std::byte* mine, std::byte* to_them, const std::byte* theirs,
                               std::byte* to_me, int64_t bytes) {
    std::byte block[kSwapBytes];
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(kSwapBytes)) {
      const size_t part = std::min(kSwapBytes, static_cast<size_t>(bytes - at));
      std::memcpy(block, mine + at, part);
      std::memcpy(to_me + at, theirs + at, part);
      std::memcpy(to_them + at, block, part);
    }
  }

  void reduce_into(int64_t begin, int64_t count, int block, std::span<void* const> targets) {
    if (count <= 0) return;
    for (int peer = 0; peer < size_; ++peer) {
      m_.sources[static_cast<size_t>(peer)] = in_of(peer).at(block, begin, element_);
    }
    const int mean_over = m_.reduce == ReduceOp::kMean ? size_ : 0;
    if (m_.device != nullptr) {
      return m_.device->reduce(m_.reduce, m_.dtype, m_.sources, targets, count, mean_over);
    }
    reduce_in_order(choose_reduce_kernel(m_.sources, targets, result_bytes()), m_.reduce, m_.dtype,
                    m_.sources, targets, count, mean_over);
  }

  void count_reads_of(int64_t elements) {
    if (elements <= 0) return;
    for (int peer = 0; peer < size_; ++peer) count_read(peer, elements * element_);
  }

  void reduce_slice(std::span<const Side> outputs) {
    const SliceRange slice = all_reduce_slice(m_.end - m_.begin, element_, m_.rank, size_);
    const int64_t begin = m_.begin + slice.begin;
    for (size_t i = 0; i < outputs.size(); ++i) m_.targets[i] = outputs[i].at(0, begin, element_);
    reduce_into(begin, slice.size(), 0, m_.targets.first(outputs.size()));
    if (m_.counts_as_mail) {
      if (outputs.size() > 1 || m_.rank == m_.root) count_reads_of(m_.end - m_.begin);
      return;
    }
    count_reads_of(slice.size());
    const bool mine_included = outputs.size() > 1 || m_.rank == m_.root;
    const auto others = static_cast<int64_t>(outputs.size()) - (mine_included ? 1 : 0);
    count_stored(slice.size() * element_ * others);
  }

  void reduce_all_of_it() {
    m_.targets[0] = out(0);
    reduce_into(m_.begin, m_.end - m_.begin, 0, m_.targets.first(1));
    count_reads_of(m_.end - m_.begin);
  }

  void reduce_block() {
    m_.targets[0] = out(0);
    reduce_into(m_.begin, m_.end - m_.begin, m_.rank, m_.targets.first(1));
    count_reads_of(m_.end - m_.begin);
  }

  const Movement& m_;
  const GroupView& group_;
  int size_;
  int64_t element_;
};

}  // namespace

void move(const Movement& movement, const GroupView& group) { Mover(movement, group).run(); }

}  // namespace tessera::shared

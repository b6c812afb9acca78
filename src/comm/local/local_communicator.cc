#include "comm/local/local_communicator.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "collective/slices.h"
#include "comm/local/sum.h"

namespace tessera {
namespace {

const void* advance(const void* base, int64_t size_bytes) {
  return static_cast<const std::byte*>(base) + size_bytes;
}

void* advance(void* base, int64_t size_bytes) { return static_cast<std::byte*>(base) + size_bytes; }

}  // namespace

LocalCommunicator::LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank)
    : group_(std::move(group)),
      rank_(rank),
      sources_(static_cast<size_t>(group_->size())),
      targets_(static_cast<size_t>(group_->size())) {}

void LocalCommunicator::run(const CollectiveCall& call) {
  switch (call.op) {
    case CollectiveOp::kAllReduce:
      return all_reduce(call.out, call.count, call.dtype, call.tag);
    case CollectiveOp::kAllGather:
      return all_gather(call.in, call.out, call.count, call.dtype, call.tag);
    case CollectiveOp::kReduceScatter:
      return reduce_scatter(call.in, call.out, call.count, call.dtype, call.tag);
    case CollectiveOp::kBroadcast:
      return broadcast(call.out, call.count, call.dtype, call.root, call.tag);
    case CollectiveOp::kBarrier:
      return barrier(call.tag);
    default:
      group_->fail(fmt::format("{} is not there yet", name_of(call.op)));
  }
}

std::unique_ptr<Communicator> LocalCommunicator::split(int, int, const std::string&) {
  group_->fail("split is not there yet");
}

void LocalCommunicator::all_reduce(void* data, int64_t count, DType dtype, uint32_t tag) {
  enter({.op = CollectiveOp::kAllReduce, .dtype = dtype, .tag = tag, .count = count}, data, data);
  const int64_t element = size_bytes(dtype);
  const SliceRange slice = all_reduce_slice(count, element, rank_, size());
  for (int peer = 0; peer < size(); ++peer) {
    void* out = group_->call_of(rank_, peer).out;
    targets_[static_cast<size_t>(peer)] = advance(out, slice.begin * element);
  }
  sum_inputs(slice.begin * element, targets_, slice.size(), dtype);
  group_->count_stored(rank_, slice.size() * element * (size() - 1));
  group_->leave(rank_);
}

void LocalCommunicator::all_gather(const void* shard, void* full, int64_t count, DType dtype,
                                   uint32_t tag) {
  const int64_t shard_bytes = count * size_bytes(dtype);
  check_place(CollectiveOp::kAllGather, shard, full, shard_bytes);
  enter({.op = CollectiveOp::kAllGather, .dtype = dtype, .tag = tag, .count = count}, shard, full);
  // Each rank begins with its own shard, so that not all read from the same peer at once.
  for (int step = 0; count > 0 && step < size(); ++step) {
    const int peer = (rank_ + step) % size();
    copy_from(peer, advance(full, peer * shard_bytes), shard_bytes);
  }
  group_->leave(rank_);
}

void LocalCommunicator::reduce_scatter(const void* full, void* shard, int64_t count, DType dtype,
                                       uint32_t tag) {
  const int64_t shard_bytes = count * size_bytes(dtype);
  check_place(CollectiveOp::kReduceScatter, shard, full, shard_bytes);
  enter({.op = CollectiveOp::kReduceScatter, .dtype = dtype, .tag = tag, .count = count}, full,
        shard);
  sum_inputs(rank_ * shard_bytes, std::span<void* const>(&shard, 1), count, dtype);
  group_->leave(rank_);
}

void LocalCommunicator::broadcast(void* data, int64_t count, DType dtype, int root, uint32_t tag) {
  if (root < 0 || root >= size()) {
    group_->fail(fmt::format("rank {} called broadcast with root {}: roots are 0 to {}",
                             group_->world_rank(rank_), root, size() - 1));
  }
  enter({.op = CollectiveOp::kBroadcast, .dtype = dtype, .root = root, .tag = tag, .count = count},
        data, data);
  if (count > 0) copy_from(root, data, count * size_bytes(dtype));
  group_->leave(rank_);
}

void LocalCommunicator::barrier(uint32_t tag) {
  enter({.op = CollectiveOp::kBarrier, .tag = tag}, nullptr, nullptr);
  group_->count_call(rank_);
}

void LocalCommunicator::enter(const Fingerprint& fingerprint, const void* in, void* out) {
  const int64_t count = fingerprint.count;
  if (count < 0 || (count > 0 && (in == nullptr || out == nullptr))) {
    group_->fail(fmt::format("rank {} called {} with count {} and {} buffer",
                             group_->world_rank(rank_), name_of(fingerprint.op), count,
                             in == nullptr || out == nullptr ? "a null" : "a valid"));
  }
  group_->enter(rank_, {fingerprint, in, out});
}

void LocalCommunicator::check_place(CollectiveOp op, const void* shard, const void* full,
                                    int64_t shard_bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(full);
  const auto at = reinterpret_cast<uintptr_t>(shard);
  const auto length = static_cast<uintptr_t>(shard_bytes);
  const bool apart = at + length <= begin || at >= begin + length * static_cast<uintptr_t>(size());
  const bool in_place = at == begin + length * static_cast<uintptr_t>(rank_);
  if (shard_bytes <= 0 || apart || in_place) return;
  group_->fail(fmt::format(
      "rank {} called {} with a shard that overlaps the full buffer at byte {}: only byte {} (its "
      "own place) is allowed",
      group_->world_rank(rank_), name_of(op), static_cast<int64_t>(at - begin),
      rank_ * shard_bytes));
}

void LocalCommunicator::sum_inputs(int64_t offset, std::span<void* const> targets, int64_t count,
                                   DType dtype) {
  if (count == 0) return;
  for (int peer = 0; peer < size(); ++peer) {
    sources_[static_cast<size_t>(peer)] = advance(group_->call_of(rank_, peer).in, offset);
    if (peer != rank_) group_->count_read(rank_, peer, count * size_bytes(dtype));
  }
  sum_in_order(choose_sum_kernel(sources_, targets), dtype, sources_, targets, count);
}

void LocalCommunicator::copy_from(int peer, void* to, int64_t size_bytes) {
  const void* from = group_->call_of(rank_, peer).in;
  if (from != to) std::memcpy(to, from, static_cast<size_t>(size_bytes));
  if (peer != rank_) group_->count_read(rank_, peer, size_bytes);
}

}  // namespace tessera

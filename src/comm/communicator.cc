#include "comm/communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/world.h"

namespace tessera {

std::string describe(const CollectiveCall& call, uint64_t sequence) {
  std::string text(name_of(call.op));
  std::string arguments;
  const auto add = [&](const std::string& argument) {
    arguments += (arguments.empty() ? "" : ", ") + argument;
  };
  if (call.op != CollectiveOp::kBarrier) {
    add(std::string(name_of(call.dtype)));
    if (call.op != CollectiveOp::kAllToAllV) add(std::to_string(call.count));
  }
  if (has_root(call.op)) add(fmt::format("root {}", call.root));
  if (is_point_to_point(call.op)) {
    add(fmt::format("{} {}", call.op == CollectiveOp::kSend ? "to" : "from", call.root));
  }
  if (reduces(call.op) && call.reduce != ReduceOp::kSum) add(std::string(name_of(call.reduce)));
  if (call.algorithm != Algorithm::kAuto) add(std::string(name_of(call.algorithm)));
  if (call.tag != 0) add(fmt::format("tag {}", call.tag));
  return fmt::format("{}({}) #{}", text, arguments, sequence);
}

Work::Work(Work&& other) noexcept
    : progress_(std::exchange(other.progress_, nullptr)), ticket_(other.ticket_) {}

Work& Work::operator=(Work&& other) noexcept {
  Work moved(std::move(other));
  std::swap(progress_, moved.progress_);
  std::swap(ticket_, moved.ticket_);
  return *this;
}

Work::~Work() {
  if (progress_ == nullptr) return;
  try {
    wait();
  } catch (const std::exception&) {
    // The world is aborted: the next call on any communicator says why.
  }
}

bool Work::test() {
  if (progress_ == nullptr) return true;
  Progress* const progress = std::exchange(progress_, nullptr);  // an error ends the work too
  if (progress->test(ticket_)) return true;
  progress_ = progress;
  return false;
}

void Work::wait() { (void)wait_for(std::chrono::milliseconds(-1)); }

bool Work::wait_for(std::chrono::milliseconds time) {
  if (progress_ == nullptr) return true;
  Progress* const progress = std::exchange(progress_, nullptr);
  if (progress->wait(ticket_, time)) return true;
  progress_ = progress;
  return false;
}

void Communicator::enqueue(std::span<const CollectiveCall> calls, void* /*stream*/) {
  TESSERA_CHECK(false, "group {}: {} calls for a stream, but this backend has none", name(),
                calls.size());
}

void Communicator::all_reduce(void* data, int64_t count, DType dtype, uint32_t tag,
                              ReduceOp reduce) {
  run({.op = CollectiveOp::kAllReduce,
       .reduce = reduce,
       .dtype = dtype,
       .tag = tag,
       .count = count,
       .in = data,
       .out = data});
}

void Communicator::all_gather(const void* shard, void* full, int64_t count, DType dtype,
                              uint32_t tag) {
  run({.op = CollectiveOp::kAllGather,
       .dtype = dtype,
       .tag = tag,
       .count = count,
       .in = shard,
       .out = full});
}

void Communicator::reduce_scatter(const void* full, void* shard, int64_t count, DType dtype,
                                  uint32_t tag, ReduceOp reduce) {
  run({.op = CollectiveOp::kReduceScatter,
       .reduce = reduce,
       .dtype = dtype,
       .tag = tag,
       .count = count,
       .in = full,
       .out = shard});
}

void Communicator::broadcast(void* data, int64_t count, DType dtype, int root, uint32_t tag) {
  run({.op = CollectiveOp::kBroadcast,
       .dtype = dtype,
       .root = root,
       .tag = tag,
       .count = count,
       .in = data,
       .out = data});
}

void Communicator::scatter(const void* full, void* shard, int64_t count, DType dtype, int root,
                           uint32_t tag) {
  run({.op = CollectiveOp::kScatter,
       .dtype = dtype,
       .root = root,
       .tag = tag,
       .count = count,
       .in = full,
       .out = shard});
}

void Communicator::gather(const void* shard, void* full, int64_t count, DType dtype, int root,
                          uint32_t tag) {
  run({.op = CollectiveOp::kGather,
       .dtype = dtype,
       .root = root,
       .tag = tag,
       .count = count,
       .in = shard,
       .out = full});
}

void Communicator::reduce(const void* in, void* out, int64_t count, DType dtype, int root,
                          uint32_t tag, ReduceOp reduce) {
  run({.op = CollectiveOp::kReduce,
       .reduce = reduce,
       .dtype = dtype,
       .root = root,
       .tag = tag,
       .count = count,
       .in = in,
       .out = out});
}

void Communicator::all_to_all(const void* in, void* out, int64_t count, DType dtype, uint32_t tag) {
  run({.op = CollectiveOp::kAllToAll,
       .dtype = dtype,
       .tag = tag,
       .count = count,
       .in = in,
       .out = out});
}

void Communicator::all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                                std::span<const int64_t> receive_counts, DType dtype,
                                uint32_t tag) {
  run({.op = CollectiveOp::kAllToAllV,
       .dtype = dtype,
       .tag = tag,
       .in = in,
       .out = out,
       .send_counts = send_counts,
       .receive_counts = receive_counts});
}

void Communicator::send(const void* data, int64_t count, DType dtype, int to, uint32_t tag) {
  run({.op = CollectiveOp::kSend,
       .dtype = dtype,
       .root = to,
       .tag = tag,
       .count = count,
       .in = data});
}

void Communicator::receive(void* data, int64_t count, DType dtype, int from, uint32_t tag) {
  run({.op = CollectiveOp::kReceive,
       .dtype = dtype,
       .root = from,
       .tag = tag,
       .count = count,
       .out = data});
}

void Communicator::barrier(uint32_t tag) { run({.op = CollectiveOp::kBarrier, .tag = tag}); }

std::vector<int> exchange_colors(Communicator& group, int color, int key) {
  std::vector<int64_t> all(static_cast<size_t>(2 * group.size()));
  const std::array<int64_t, 2> mine = {color, key};
  group.all_gather(mine.data(), all.data(), 2, DType::kI64);
  std::vector<int> chosen;
  if (color < 0) return chosen;
  std::vector<std::pair<int64_t, int>> by_key;  // key, rank
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto at = static_cast<size_t>(2 * rank);
    if (all[at] == color) by_key.emplace_back(all[at + 1], rank);
  }
  std::sort(by_key.begin(), by_key.end());
  for (const auto& [order, rank] : by_key) {
    chosen.push_back(group.members()[static_cast<size_t>(rank)]);
  }
  return chosen;
}

std::vector<std::string> exchange_texts(Communicator& group, const std::string& mine) {
  std::vector<int64_t> sizes(static_cast<size_t>(group.size()));
  const auto size = static_cast<int64_t>(mine.size());
  group.all_gather(&size, sizes.data(), 1, DType::kI64);
  const int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<char> padded(static_cast<size_t>(longest), '\0');
  std::copy(mine.begin(), mine.end(), padded.begin());
  std::vector<char> all(static_cast<size_t>(longest) * sizes.size());
  if (longest > 0) group.all_gather(padded.data(), all.data(), longest, DType::kU8);
  std::vector<std::string> texts;
  for (size_t r = 0; r < sizes.size(); ++r) {
    texts.emplace_back(all.data() + static_cast<int64_t>(r) * longest,
                       static_cast<size_t>(sizes[r]));
  }
  return texts;
}

std::unique_ptr<Communicator> CommWorld::join_all(const std::string& name) {
  std::vector<int> all(static_cast<size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  return join(name, all);
}

}  // namespace tessera

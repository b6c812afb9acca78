#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/testing/scenario_steps.h"

namespace tessera::testing {
namespace {

// Small whole numbers: every sum of them is exact.
std::vector<float> numbers(int64_t count, float first) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

float of(int rank) { return static_cast<float>(100 * rank); }

void expect_equal(SuiteRank& suite, const std::string& what, const std::vector<float>& actual,
                  const std::vector<float>& expected) {
  suite.expect(actual == expected, what + " gave other values");
}

}  // namespace

// The arguments of the calls by name reach their places.
void named_calls(SuiteRank& suite) {
  constexpr int64_t kCount = 3;
  constexpr uint32_t kTag = 9;
  Communicator& group = suite.all();
  const int n = group.size();
  const int rank = group.rank();
  const int root = n - 1;
  const bool is_root = rank == root;
  const std::vector<float> mine = numbers(kCount, of(rank));
  const std::vector<float> full = numbers(kCount * n, of(rank));
  std::vector<float> everyone;  // the shards one after the other
  for (int r = 0; r < n; ++r) {
    for (const float value : numbers(kCount, of(r))) everyone.push_back(value);
  }
  const float sum = of(n * (n - 1) / 2);
  const auto summed = [&](int64_t i) { return sum + static_cast<float>(n * i); };

  std::vector<float> data = mine;
  group.all_reduce(data.data(), kCount, DType::kF32, kTag);
  expect_equal(suite, "all_reduce", data, {summed(0), summed(1), summed(2)});
  data = mine;
  group.all_reduce(data.data(), kCount, DType::kF32, kTag, ReduceOp::kMax);
  expect_equal(suite, "all_reduce max", data, numbers(kCount, of(n - 1)));

  std::vector<float> gathered(full.size());
  group.all_gather(mine.data(), gathered.data(), kCount, DType::kF32, kTag);
  expect_equal(suite, "all_gather", gathered, everyone);

  std::vector<float> shard(mine.size());
  group.reduce_scatter(full.data(), shard.data(), kCount, DType::kF32, kTag, ReduceOp::kMin);
  expect_equal(suite, "reduce_scatter min", shard,
               numbers(kCount, static_cast<float>(rank * kCount)));

  data = mine;
  group.broadcast(data.data(), kCount, DType::kF32, root, kTag);
  expect_equal(suite, "broadcast", data, numbers(kCount, of(root)));

  group.scatter(is_root ? everyone.data() : nullptr, shard.data(), kCount, DType::kF32, root, kTag);
  expect_equal(suite, "scatter", shard, mine);

  std::fill(gathered.begin(), gathered.end(), 0.0F);
  group.gather(mine.data(), is_root ? gathered.data() : nullptr, kCount, DType::kF32, root, kTag);
  if (is_root) expect_equal(suite, "gather", gathered, everyone);

  group.reduce(mine.data(), is_root ? data.data() : nullptr, kCount, DType::kF32, root, kTag);
  if (is_root) expect_equal(suite, "reduce", data, {summed(0), summed(1), summed(2)});

  std::vector<float> exchanged(full.size());
  group.all_to_all(everyone.data(), exchanged.data(), kCount, DType::kF32, kTag);
  std::vector<float> expected;
  for (int r = 0; r < n; ++r) expected.insert(expected.end(), mine.begin(), mine.end());
  expect_equal(suite, "all_to_all", exchanged, expected);

  // Each sends one element more to each next rank.
  std::vector<int64_t> send_counts(static_cast<size_t>(n));
  std::iota(send_counts.begin(), send_counts.end(), 0);
  const std::vector<int64_t> receive_counts(static_cast<size_t>(n), rank);
  const std::vector<float> sent(static_cast<size_t>(n * (n - 1) / 2), of(rank));
  std::vector<float> received(static_cast<size_t>(n * rank));
  group.all_to_all_v(sent.data(), send_counts, received.data(), receive_counts, DType::kF32, kTag);
  for (size_t i = 0; i < received.size(); ++i) {
    const int from = static_cast<int>(i) / rank;
    suite.expect(received[i] == of(from), "all_to_all_v gave other values");
  }
  group.barrier(kTag);

  const std::string text(static_cast<size_t>(rank * 5), static_cast<char>('a' + rank));
  const std::vector<std::string> texts = exchange_texts(group, text);
  for (int r = 0; r < n; ++r) {
    suite.expect(texts[static_cast<size_t>(r)] ==
                     std::string(static_cast<size_t>(r * 5), static_cast<char>('a' + r)),
                 "exchange_texts gave another text");
  }
}

// Messages between two ranks arrive in the order they were sent, whatever their sizes; messages of
// different peers wait for nobody.
void point_to_point(SuiteRank& suite) {
  Communicator& group = suite.all();
  const int n = group.size();
  constexpr int64_t kSizes[] = {3, 0, 5000, 1, 20'000, 700};
  if (group.rank() == 0) {
    for (const int64_t size : kSizes) {
      for (int to = 1; to < n; ++to) {
        const std::vector<float> message = numbers(size, of(to));
        group.send(message.data(), size, DType::kF32, to, static_cast<uint32_t>(size));
      }
    }
    // Replies, last rank first.
    std::vector<std::vector<float>> replies(static_cast<size_t>(n));
    std::vector<Work> works(static_cast<size_t>(n));
    for (int from = n - 1; from > 0; --from) {
      std::vector<float>& reply = replies[static_cast<size_t>(from)];
      reply.resize(300);
      works[static_cast<size_t>(from)] = group.start({.op = CollectiveOp::kReceive,
                                                      .dtype = DType::kF32,
                                                      .root = from,
                                                      .count = 300,
                                                      .out = reply.data()});
    }
    for (int from = 1; from < n; ++from) {
      works[static_cast<size_t>(from)].wait();
      expect_equal(suite, "receive of a reply", replies[static_cast<size_t>(from)],
                   numbers(300, of(from)));
    }
    return;
  }
  for (const int64_t size : kSizes) {
    suite.pause();
    std::vector<float> message(static_cast<size_t>(size));
    group.receive(message.data(), size, DType::kF32, 0, static_cast<uint32_t>(size));
    expect_equal(suite, "receive", message, numbers(size, of(group.rank())));
  }
  const std::vector<float> reply = numbers(300, of(group.rank()));
  group.send(reply.data(), 300, DType::kF32, 0);
}

}  // namespace tessera::testing

// Several groups at work at once, as a mesh uses them.
#include <random>

#include "comm/testing/local_ranks.h"

namespace tessera {
namespace {

using namespace tessera::testing;

constexpr int kWorld = 8;

// The peers of `rank` along one axis of a 2x2x2 mesh; axis 3 is the whole world.
std::vector<int> peers(int rank, int axis) {
  if (axis == 3) return iota_ranks(kWorld);
  const int low = rank & ~(1 << axis);
  return {low, low | (1 << axis)};
}

struct Step {
  int axis;
  CollectiveOp op;
  int64_t count;
  uint32_t tag;
};

std::vector<Step> random_program(uint32_t seed, int num_steps, std::vector<int> axes) {
  constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter,
                                   CollectiveOp::kAllGather, CollectiveOp::kBroadcast,
                                   CollectiveOp::kBarrier};
  std::mt19937 random(seed);
  std::vector<Step> steps;
  for (int i = 0; i < num_steps; ++i) {
    steps.push_back({axes[random() % axes.size()], kOps[random() % 5],
                     static_cast<int64_t>(random() % 700), static_cast<uint32_t>(random())});
  }
  return steps;
}

// Values that tell rank, element and step apart; sums of them are exact.
int32_t value(const Step& step, int rank, int64_t i) {
  return static_cast<int32_t>(step.tag % 1000 + static_cast<uint32_t>(rank) * 100'000U +
                              static_cast<uint32_t>(i));
}

int32_t sum_of(const Step& step, const std::vector<int>& members, int64_t i) {
  int32_t sum = 0;
  for (const int member : members) sum += value(step, member, i);
  return sum;
}

// Runs one step in place and returns how many elements are wrong.
int64_t run_step(Communicator& comm, const Step& step, const std::vector<int>& members) {
  const int self = members[static_cast<size_t>(comm.rank())];
  const int64_t n = comm.size();
  std::vector<int32_t> full(static_cast<size_t>(n * step.count));
  for (size_t i = 0; i < full.size(); ++i) full[i] = value(step, self, static_cast<int64_t>(i));
  int32_t* shard = full.data() + comm.rank() * step.count;
  int64_t wrong = 0;
  const auto expect = [&](int64_t at, int32_t want) {
    wrong += full[static_cast<size_t>(at)] != want ? 1 : 0;
  };
  const int64_t base = comm.rank() * step.count;
  switch (step.op) {
    case CollectiveOp::kAllReduce:
      comm.all_reduce(full.data(), step.count, DType::kI32, step.tag);
      for (int64_t i = 0; i < step.count; ++i) expect(i, sum_of(step, members, i));
      break;
    case CollectiveOp::kReduceScatter:
      comm.reduce_scatter(full.data(), shard, step.count, DType::kI32, step.tag);
      for (int64_t i = 0; i < step.count; ++i) expect(base + i, sum_of(step, members, base + i));
      break;
    case CollectiveOp::kAllGather:
      comm.all_gather(shard, full.data(), step.count, DType::kI32, step.tag);
      for (int64_t i = 0; i < n * step.count; ++i) {
        expect(i, value(step, members[static_cast<size_t>(i / step.count)], i));
      }
      break;
    case CollectiveOp::kBroadcast:
      comm.broadcast(full.data(), step.count, DType::kI32, static_cast<int>(n) - 1, step.tag);
      for (int64_t i = 0; i < step.count; ++i) expect(i, value(step, members.back(), i));
      break;
    case CollectiveOp::kBarrier:
      comm.barrier(step.tag);
      break;
    default:
      ADD_FAILURE() << name_of(step.op);
  }
  return wrong;
}

void run_program(LocalWorld& world, const std::string& prefix, const std::vector<Step>& program,
                 int rank) {
  std::vector<std::unique_ptr<Communicator>> comms;
  for (int axis = 0; axis < 4; ++axis) {
    comms.push_back(world.join(prefix + std::to_string(axis), peers(rank, axis), rank));
  }
  std::mt19937 random(static_cast<uint32_t>(rank));
  for (const Step& step : program) {
    if (random() % 4 == 0) std::this_thread::yield();
    Communicator& comm = *comms[static_cast<size_t>(step.axis)];
    ASSERT_EQ(run_step(comm, step, peers(rank, step.axis)), 0);
  }
}

TEST(LocalMeshTest, GroupsInterleave) {
  LocalWorld world({.size = kWorld, .timeout = std::chrono::seconds(20)});
  const std::vector<Step> program = random_program(1, 600, {0, 1, 2, 3});
  expect_no_errors(run_ranks(kWorld, [&](int rank) { run_program(world, "axis", program, rank); }));
}

// Two threads per rank, each with groups of its own, need no order between them.
TEST(LocalMeshTest, TwoThreadsPerRank) {
  LocalWorld world({.size = kWorld, .timeout = std::chrono::seconds(20)});
  const std::vector<Step> tp = random_program(2, 300, {0});
  const std::vector<Step> dp = random_program(3, 300, {1, 2});
  expect_no_errors(run_ranks(2 * kWorld, [&](int thread) {
    const int rank = thread % kWorld;
    thread < kWorld ? run_program(world, "tp", tp, rank) : run_program(world, "dp", dp, rank);
  }));
}

}  // namespace
}  // namespace tessera

// Waits between the two streams, on programs small enough to say what they must be.
#include "compile/lower/events.h"

#include <gtest/gtest.h>

#include "compile/lower/arena_layout.h"

namespace tessera {
namespace {

// Buffers 0..n-1, each of its own storage unless said otherwise.
Program program_of(int num_buffers, const std::vector<Instruction>& instructions) {
  Program program;
  for (int b = 0; b < num_buffers; ++b) {
    program.buffers.push_back({fmt::format("b{}", b), DType::kF32, {16}});
  }
  program.instructions = instructions;
  return program;
}

Instruction kernel(std::vector<BufferId> in, std::vector<BufferId> out, int micro_batch = 0) {
  Instruction i;
  i.inputs = std::move(in);
  i.outputs = std::move(out);
  i.micro_batch = micro_batch;
  return i;
}

Instruction collective(BufferId in, BufferId out, int micro_batch = 0) {
  Instruction i = kernel({in}, {out}, micro_batch);
  i.op = OpKind::kCast;
  i.collective = CastKind::kAllGather;
  i.stream = StreamKind::kComm;
  return i;
}

// Per instruction: the instructions that it waits for.
std::vector<std::vector<int>> waits_of(const Program& program) {
  std::vector<std::vector<int>> waits;
  for (const Instruction& waiter : program.instructions) {
    waits.emplace_back();
    for (const int event : waiter.waits) {
      for (size_t i = 0; i < program.instructions.size(); ++i) {
        if (program.instructions[i].signal == event) waits.back().push_back(static_cast<int>(i));
      }
    }
  }
  return waits;
}

using Waits = std::vector<std::vector<int>>;

std::vector<Region> regions(const std::vector<int>& storage_of) {
  std::vector<Region> list;
  for (const int storage : storage_of) list.push_back({storage, 0, false});
  return list;
}

// Every micro-batch is one item.
std::vector<InstructionPlace> at(const std::vector<int>& positions, const Program& program) {
  std::vector<InstructionPlace> places;
  for (size_t i = 0; i < positions.size(); ++i) {
    places.push_back({positions[i], program.instructions[i].micro_batch});
  }
  return places;
}
std::vector<InstructionPlace> places_of(const Program& program) {
  return at(std::vector<int>(program.instructions.size(), 0), program);
}

bool persistent(const Storage& storage) { return storage.kind == StorageKind::kPersistent; }

TEST(Events, AResultIsWaitedForAndAnInputOnlyBeforeItIsOverwritten) {
  Program program = program_of(
      4, {kernel({}, {0}), collective(0, 1), kernel({0}, {2}), kernel({}, {0}), kernel({1}, {3})});
  add_events(program, regions({0, 1, 2, 3}), places_of(program));
  // 2 only reads what the collective reads; 3 overwrites it; 4 knows by then that it is done.
  EXPECT_EQ(waits_of(program), (Waits{{}, {0}, {}, {1}, {}}));
  EXPECT_EQ(program.num_events, 2);
}

TEST(Events, AKernelThatReadsOrOverwritesAResultWaits) {
  Program program = program_of(3, {kernel({}, {0}), collective(0, 1), kernel({2}, {1})});
  add_events(program, regions({0, 1, 2}), places_of(program));
  EXPECT_EQ(waits_of(program), (Waits{{}, {0}, {1}}));
}

TEST(Events, BuffersOfOneStorageAreOne) {
  Program program = program_of(4, {kernel({}, {0}), collective(0, 1), kernel({2}, {3})});
  add_events(program, regions({0, 1, 1, 3}), places_of(program));  // 2 is a part of 1
  EXPECT_EQ(waits_of(program), (Waits{{}, {0}, {1}}));
}

TEST(Events, TheNewestCollectiveIsEnough) {
  Program program = program_of(
      5, {kernel({}, {0}), collective(0, 1), collective(0, 2), kernel({2}, {3}), kernel({1}, {4})});
  add_events(program, regions({0, 1, 2, 3, 4}), places_of(program));
  EXPECT_EQ(waits_of(program), (Waits{{}, {0}, {}, {2}, {}}));
}

TEST(Events, AMicroBatchStartsBehindTheCollectivesOfTheOneBefore) {
  Program program = program_of(3, {kernel({}, {0}, 0), collective(0, 1, 0), kernel({}, {2}, 1)});
  add_events(program, regions({0, 1, 2}), places_of(program));
  EXPECT_EQ(waits_of(program), (Waits{{}, {0}, {1}}));
}

TEST(Events, WithoutOverlapAKernelWaitsForEveryCollectiveBeforeIt) {
  Program program = program_of(
      5, {kernel({}, {0}), collective(0, 1), kernel({}, {2}), collective(2, 3), kernel({}, {4})});
  add_events(program, regions({0, 1, 2, 3, 4}), places_of(program), /*overlap=*/false);
  EXPECT_EQ(waits_of(program), (Waits{{}, {0}, {1}, {2}, {3}}));
}

std::vector<Storage> storages(int n) {
  std::vector<Storage> list(static_cast<size_t>(n));
  for (Storage& storage : list) storage.bytes = 64;
  return list;
}

TEST(Lifetimes, ACollectiveHoldsItsMemoryUntilComputeHasWaited) {
  Program program =
      program_of(4, {kernel({}, {0}), collective(0, 1), kernel({}, {2}), kernel({1}, {3})});
  add_events(program, regions({0, 1, 2, 3}), places_of(program));
  std::vector<Storage> list = storages(4);
  find_lifetimes(program, regions({0, 1, 2, 3}), at({0, 1, 2, 3}, program), {3}, list);
  EXPECT_EQ(list[0].first_use, 0);
  EXPECT_EQ(list[0].last_use, 3) << "read by a collective that runs until kernel 3 waits";
  EXPECT_EQ(list[1].first_use, 1);
  EXPECT_EQ(list[2].last_use, 2);
}

TEST(Lifetimes, WithoutAWaitInItsMicroBatchToTheEndOfIt) {
  Program program = program_of(
      3, {kernel({}, {0}, 0), collective(0, 1, 0), kernel({}, {2}, 0), kernel({}, {2}, 1)});
  add_events(program, regions({0, 1, 2}), places_of(program));
  std::vector<Storage> list = storages(3);
  find_lifetimes(program, regions({0, 1, 2}), at({0, 1, 2, 0}, program), {2, 2}, list);
  EXPECT_EQ(list[0].last_use, 2);
  EXPECT_EQ(list[1].last_use, 2);
}

TEST(Lifetimes, NeverWaitedForToTheEndOfTheStep) {
  Program program = program_of(3, {kernel({}, {0}), collective(0, 1), kernel({}, {2})});
  add_events(program, regions({0, 1, 2}), places_of(program));
  std::vector<Storage> list = storages(3);
  find_lifetimes(program, regions({0, 1, 2}), at({0, 1, 7}, program), {7}, list);
  EXPECT_EQ(list[0].last_use, 7);
  EXPECT_EQ(list[1].last_use, 7);
}

// Many random lifetimes: whoever lives together lies apart, and the rest is shared.
TEST(ArenaPlacement, OverlappingLifetimesNeverShareMemory) {
  uint32_t state = 1;
  const auto random = [&](uint32_t n) {
    state = state * 1664525U + 1013904223U;
    return static_cast<int>((state >> 8) % n);
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<Storage> list = storages(40);
    int64_t sum = 0;
    for (Storage& storage : list) {
      storage.bytes = 1 + random(1000);
      storage.kind = random(8) == 0 ? StorageKind::kPersistent : StorageKind::kTransient;
      storage.first_use = random(60);
      storage.last_use = storage.first_use + random(12);
      sum += (storage.bytes + 63) / 64 * 64;
    }
    std::array<int64_t, kNumArenas> bytes{};
    std::vector<Storage> again = list;
    place_storages(list, {}, bytes);
    const int64_t total = bytes[static_cast<size_t>(ArenaKind::kActivations)];
    EXPECT_LT(total, sum * 3 / 4) << "hardly anything is shared";
    for (const Storage& a : list) {
      EXPECT_EQ(a.offset % 64, 0);
      EXPECT_LE(a.offset + a.bytes, total);
      for (const Storage& b : list) {
        const bool together =
            persistent(a) || persistent(b) ||
            std::max(a.first_use, b.first_use) <= std::min(a.last_use, b.last_use);
        if (&a == &b || !together) continue;
        ASSERT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
      }
    }
    place_storages(again, {}, bytes);
    for (size_t i = 0; i < list.size(); ++i) EXPECT_EQ(again[i].offset, list[i].offset);
  }
}

}  // namespace
}  // namespace tessera

// A run moves from any mesh to any other: what ranks hold is the same bit for bit, training goes on
// as if it had never moved, and neither more is read nor more memory taken than it needs.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "base/testing/share.h"
#include "base/testing/test_folder.h"
#include "checkpoint/store/compare.h"
#include "checkpoint/store/saves.h"
#include "support/mesh_run.h"
#include "support/random_case.h"

namespace tessera {
namespace {

using testing::Dice;
using testing::MeshRun;
using testing::TestFolder;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kMovedAfter = 2, kLastStep = 4;
constexpr int64_t kPairs = 72;

// Odd sizes, padded vocabularies, weights tied over stages, experts, one optimizer state or two.
const std::vector<std::string>& models() {
  static const std::vector<std::string> kModels = {
      "vocab=37 ffn=21 layers=4 dropout=0.2",
      "vocab=41 tied=true layers=7 kv_heads=1 ffn=13",
      "vocab=53 layers=8 heads=5 kv_heads=5 hidden=20 tied=true",
      "family=mixtral experts=4 vocab=39 layers=4 router_aux_coef=0.1",
      "family=mixtral experts=6 experts_per_token=1 vocab=29 layers=3 ffn=15",
      "family=gpt2 kv_heads=4 hidden=16 head_dim=4 kind=sgd eps=1e-8 momentum=0.9 vocab=17 "
      "layers=5"};
  return kModels;
}

// A mesh of exactly `world` ranks.
std::string draw_mesh(Dice& dice, int64_t world, bool experts) {
  std::map<std::string, int64_t> sizes;
  int64_t left = world;
  while (left > 1) {
    int64_t factor = 2;
    while (left % factor != 0) ++factor;
    const std::string axis = dice.one_of({"pp", "dp", "fsdp", "cp", "tp"});
    sizes[axis] = std::max<int64_t>(1, sizes[axis]) * factor;
    left /= factor;
  }
  std::string mesh;
  for (const auto& [axis, size] : sizes)
    mesh += fmt::format(" {}={}", axis, std::max<int64_t>(1, size));
  mesh += " zero=" + dice.one_of({"0", "1", "2", "3"});
  mesh += " sequence_parallel=" + dice.one_of({"false", "true"});
  mesh += " schedule=" + dice.one_of({"1f1b", "gpipe", "interleaved virtual_stages=2", "zb-h1",
                                      "zb-v", "dualpipe-v"});
  mesh += " cp_kind=" + dice.one_of({"ring", "allgather", "ulysses"});
  if (experts) mesh += " ep=" + dice.one_of({"1", "2", "3", "4"});
  return mesh;
}

struct Move {
  std::string from, to;
};

// `seed` decides all.
Move draw_move(uint64_t seed) {
  Dice dice(seed);
  const std::string model = dice.one_of(models());
  const std::string batch =
      " global_batch=" + dice.one_of({"4", "6", "10", "14", "30", "42", "70"});
  const bool experts = model.find("experts") != std::string::npos;
  const auto draw = [&](uint64_t turn) -> std::string {
    for (int i = 0; i < 5'000; ++i) {
      // Numbers of ranks take turns, where model and batch suit them; else another one will do.
      const auto world = static_cast<int64_t>(
          1 + (i < 500 ? (seed + turn) % testing::kMaxWorld : dice.below(testing::kMaxWorld)));
      const std::string line = model + batch + draw_mesh(dice, world, experts);
      try {
        if (testing::parse_case(line).spec.parallel.world() != world) continue;
        build_step(testing::parse_case(line).spec, StepKind::kTraining);
        return line;
      } catch (const ConfigError&) {
        continue;  // what the model cannot be on
      }
    }
    throw Error(fmt::format("seed {}: no mesh for {}{}", seed, model, batch));
  };
  Move move{draw(0), draw(seed / testing::kMaxWorld + 3)};
  for (uint64_t turn = 0; move.to == move.from; ++turn) move.to = draw(turn);
  return move;
}

// Stretches of files that a rank wants, counted without the reader.
struct Stretches {
  int64_t needed = 0;
  int64_t runs = 0;   // with something else between one and the next
  int64_t spans = 0;  // further apart than kNearBytes
  int64_t gaps = 0;   // bytes between runs of one span
};
Stretches stretches_of(const CheckpointFolder& checkpoint, std::span<const WantedBox> wanted) {
  std::map<int64_t, std::vector<std::pair<int64_t, int64_t>>> files;
  for (const WantedBox& box : wanted) {
    const int64_t element = size_bits(box.type) / 8;
    for (const ManifestChunk& chunk : checkpoint.manifest.find(box.tensor)->chunks) {
      const auto common = intersection(chunk.box, box.place.box);
      if (!common) continue;
      for_each_common_run(placed_dense(chunk.box), box.place, *common,
                          [&](int64_t from, int64_t, int64_t count) {
                            const int64_t begin = chunk.begin + from * element;
                            files[chunk.file].emplace_back(begin, begin + count * element);
                          });
    }
  }
  Stretches all;
  for (auto& [file, runs] : files) {
    std::sort(runs.begin(), runs.end());
    int64_t end = -1;
    for (const auto& [begin, until] : runs) {
      all.needed += until - begin;
      const bool near = end >= 0 && begin - end <= kNearBytes;
      if (begin != end) ++all.runs;
      if (near) all.gaps += begin - end;
      if (!near) ++all.spans;
      end = until;
    }
  }
  return all;
}

// What is promised, 2 MiB for each end of a run; and what that comes from: whole blocks at both
// ends of a span, and the gaps that are read rather than skipped.
void expect_frugal(const CheckpointFolder& checkpoint, std::span<const WantedBox> wanted,
                   const ReadFigures& figures) {
  const Stretches mine = stretches_of(checkpoint, wanted);
  EXPECT_EQ(figures.needed_bytes, mine.needed);
  EXPECT_LE(figures.read_bytes, mine.needed + 2 * 2 * kMiB * mine.runs);
  EXPECT_LE(figures.read_bytes, mine.needed + mine.gaps + 2 * kStoreBlockBytes * mine.spans);
}

void expect_moves(const Move& move) {
  const TestFolder folder;
  const auto open = [&](const char* name) { return real_files(folder.path(name), /*make=*/true); };
  const std::unique_ptr<FileOps> here = open("here"), there = open("there");
  MeshRun stays(move.from);
  stays.begin();
  stays.train(0, kMovedAfter);
  stays.save(*here, kMovedAfter);
  stays.train(kMovedAfter, kLastStep);
  stays.save(*here, kLastStep);
  const CheckpointFolder saved = open_checkpoint(*here, step_folder(kMovedAfter));
  MeshRun moves(move.to);
  moves.begin();
  moves.resume(*here, saved, [&](std::span<const WantedBox> wanted, const ReadFigures& figures) {
    expect_frugal(saved, wanted, figures);
  });
  const auto compare = [&](int64_t step) {
    return compare_checkpoints({*here, open_checkpoint(*here, step_folder(step))},
                               {*there, open_checkpoint(*there, step_folder(step))});
  };
  moves.save(*there, kMovedAfter);
  const CheckpointDifference arrived = compare(kMovedAfter);
  EXPECT_TRUE(arrived.equal()) << arrived.tensors.front().tensor;
  EXPECT_GT(arrived.same_tensors, 10);
  moves.train(kMovedAfter, kLastStep);
  moves.save(*there, kLastStep);
  for (const TensorDifference& one : compare(kLastStep).tensors) {
    EXPECT_EQ(one.kind, "");
    EXPECT_LE(one.largest, 1e-12) << one.tensor;
  }
}

TEST(ReshardGridTest, AnyRunMovesToAnyMesh) {
  const testing::Share share = testing::share_of(kPairs, 24);
  for (int64_t seed = share.begin; seed < share.end; ++seed) {
    const Move move = draw_move(static_cast<uint64_t>(seed));
    SCOPED_TRACE(fmt::format("{}: {} -> {}", seed, move.from, move.to));
    expect_moves(move);
  }
}

// All numbers of ranks, models and stages of ZeRO are among the pairs, on both sides.
TEST(ReshardGridTest, PairsAreOfAllKinds) {
  std::set<int64_t> from, to, zero;
  std::set<std::string> lines;
  for (int64_t seed = 0; seed < kPairs; ++seed) {
    const Move move = draw_move(static_cast<uint64_t>(seed));
    const auto parallel = [](const std::string& line) {
      return testing::parse_case(line).spec.parallel;
    };
    from.insert(parallel(move.from).world());
    to.insert(parallel(move.to).world());
    zero.insert(parallel(move.to).zero);
    lines.insert(move.from + move.to);
  }
  EXPECT_EQ(from.size(), 8U);
  EXPECT_EQ(to.size(), 8U);
  EXPECT_EQ(zero.size(), 4U);
  EXPECT_EQ(std::ssize(lines), kPairs);
}

// In KiB, of this process; 0 where the system does not tell.
int64_t memory_of(const char* field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::atoll(line.c_str() + std::strlen(field));
  }
  return 0;
}

// Files of many blocks: a rank that wants a third reads about a third, and keeps few blocks at a
// time beside what it holds.
TEST(ReshardGridTest, ALargeStateIsReadInParts) {
  const std::string model =
      "vocab=12301 hidden=256 ffn=704 heads=4 kv_heads=4 head_dim=64 dtype=f32 seq_len=8 "
      "global_batch=6 init_std=0.02";
  constexpr int64_t kMostExtra = 64 * kMiB;  // of one thread
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path());
  {
    MeshRun run(model + " tp=2");
    run.begin();
    run.save(*files, 1);
  }
  const CheckpointFolder saved = open_checkpoint(*files, step_folder(1));
  const int64_t all = saved.manifest.data_bytes();
  ASSERT_GT(all, kMostExtra) << "too little for a bound on memory to mean anything";
  const std::vector<std::string> meshes = {" fsdp=3 zero=3", " dp=1", " pp=2 zero=1", " tp=4"};
  for (const std::string& mesh : testing::share_of(meshes, 4)) {
    SCOPED_TRACE(mesh);
    MeshRun run(model + mesh);
    run.begin();
    // The high-water mark of memory begins anew, without what earlier ones have left to reuse.
    ::malloc_trim(0);
    if (!(std::ofstream("/proc/self/clear_refs") << 5 << std::flush)) GTEST_SKIP() << "no right";
    const int64_t before = memory_of("VmRSS:");
    int64_t most = 0;
    run.resume_in_turn(*files, saved,
                       [&](std::span<const WantedBox> wanted, const ReadFigures& figures) {
                         expect_frugal(saved, wanted, figures);
                         most = std::max(most, figures.read_bytes);
                       });
    const int64_t extra = (memory_of("VmHWM:") - before) * 1024;
    EXPECT_GT(before, 0);
    EXPECT_LE(extra, kMostExtra);
    if (mesh == " fsdp=3 zero=3" || mesh == " pp=2 zero=1") {
      EXPECT_LT(most, all * 2 / 3);
    }
    fmt::print("{}: a rank reads {} of {} KiB at most; {} KiB of memory beside the state\n", mesh,
               most / 1024, all / 1024, extra / 1024);
  }
}

}  // namespace
}  // namespace tessera

// A run that is saved, thrown away and loaded again ends with the bits of the run that nothing
// happened to; on another mesh it goes on as if it had never moved.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "base/testing/share.h"
#include "base/testing/test_folder.h"
#include "checkpoint/store/compare.h"
#include "checkpoint/store/saves.h"
#include "support/mesh_run.h"

namespace tessera {
namespace {

using testing::MeshRun;
using testing::TestFolder;

constexpr int64_t kSavedStep = 3, kLastStep = 6;

// The undisturbed run of `line`, beside one that is saved after kSavedStep and goes on as `other`.
CheckpointDifference difference_of(const std::string& line, const std::string& other,
                                   bool load = true) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> straight = real_files(folder.path("straight"), /*make=*/true);
  const std::unique_ptr<FileOps> resumed = real_files(folder.path("resumed"), /*make=*/true);
  {
    MeshRun run(line);
    run.begin();
    run.train(0, kSavedStep);
    run.save(*resumed, kSavedStep);
    run.train(kSavedStep, kLastStep);
    run.save(*straight, kLastStep);
  }
  MeshRun again(other);
  again.begin();  // the negative control goes on from here
  if (load) again.resume(*resumed, *newest_good(*resumed, {}));
  again.train(kSavedStep, kLastStep);
  again.save(*resumed, kLastStep);
  return compare_checkpoints({*straight, open_checkpoint(*straight, step_folder(kLastStep))},
                             {*resumed, open_checkpoint(*resumed, step_folder(kLastStep))});
}

TEST(ResumeStateTest, OnTheSameMeshNoBitDiffers) {
  std::vector<std::string> lines;
  for (const std::string mesh :
       {"dp=1", "dp=2 zero=0", "dp=2 zero=1", "dp=2 zero=2", "fsdp=2 zero=3", "tp=2 vocab=37",
        "pp=2 tied=true", "cp=2", "family=mixtral experts=4 ep=2 tp=2", "pp=2 dp=2 tp=2 zero=1",
        "pp=2 schedule=pipedream clip=0 global_batch=8",
        "pp=2 dp=2 zero=2 schedule=pipedream-2bw clip=0 global_batch=8"}) {
    for (const char* dtype : {" dtype=f32", " dtype=bf16"}) lines.push_back(mesh + dtype);
  }
  for (const std::string& line : testing::share_of(lines, 4)) {
    SCOPED_TRACE(line);
    const CheckpointDifference difference = difference_of(line, line);
    EXPECT_TRUE(difference.equal());
    EXPECT_GT(difference.same_tensors, 10);
  }
}

// Negative control: without the states of the optimizer, or from the beginning, bits differ.
TEST(ResumeStateTest, WithoutTheCheckpointBitsDiffer) {
  EXPECT_FALSE(difference_of("dp=2 zero=1 dtype=f32", "dp=2 zero=1 dtype=f32", false).equal());
}

TEST(ResumeStateTest, OnAnotherMeshItGoesOnAsIfItHadNotMoved) {
  const std::vector<std::pair<std::string, std::string>> moves = {
      {"dp=1", "tp=2"},
      {"tp=4 vocab=37", "fsdp=2 zero=3 vocab=37"},
      {"pp=2 tied=true", "dp=2 zero=1 tied=true"},
      {"dp=4 zero=2", "pp=2 tp=2"},
      {"family=mixtral experts=4 ep=2 tp=2", "family=mixtral experts=4 dp=2 zero=1"},
      {"cp=2 zero=1", "dp=1"},
      {"kind=sgd eps=1e-8 momentum=0.9 dp=2 zero=3", "kind=sgd eps=1e-8 momentum=0.9 tp=2"}};
  for (const auto& [from, to] : testing::share_of(moves, 3)) {
    SCOPED_TRACE(from + " -> " + to);
    for (const TensorDifference& one : difference_of(from, to).tensors) {  // in f64
      EXPECT_EQ(one.kind, "");
      EXPECT_LE(one.largest, 1e-12) << one.tensor;
    }
  }
}

// On a GPU what is read goes through memory of the host, which is to hold one buffer at a time.
TEST(ResumeStateTest, OneBufferIsReadAtATime) {
  for (const std::string line : {"dp=2 zero=1 dtype=bf16", "fsdp=2 zero=3 dtype=f32"}) {
    SCOPED_TRACE(line);
    const TestFolder folder;
    const std::unique_ptr<FileOps> files = real_files(folder.path(), /*make=*/true);
    MeshRun run(line);
    run.begin();
    run.save(*files, 1);
    for (const MeshRun::ReadSizes& rank : run.resume_and_count(*files, *newest_good(*files, {}))) {
      EXPECT_GT(rank.reads, 3);
      EXPECT_EQ(rank.most_buffers, 1U);
      EXPECT_LE(rank.most_bytes, rank.largest_buffer_bytes);
      EXPECT_GT(rank.bytes, rank.largest_buffer_bytes);
    }
  }
}

// A limit on the size of files stands in for a full disk.
TEST(SaveCheckpointTest, AFailureIsSaidOnEveryRankAndLeavesNothing) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path());
  MeshRun run("dp=2 zero=1 dtype=f32");
  run.begin();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tiny = before;
  tiny.rlim_cur = 256;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tiny), 0);
  const std::vector<std::string> failures = run.try_save(*files, 1);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  for (const std::string& failure : failures) {
    EXPECT_EQ(failure, failures[0]);
    EXPECT_NE(failure.find("rank 0: cannot make room for"), std::string::npos) << failure;
  }
  EXPECT_TRUE(files->list("").empty());
  files->make_folder(in_progress_folder({"run1", 1, "s2"}));  // somebody else's
  for (const std::string& failure : run.try_save(*files, 2)) {
    EXPECT_NE(failure.find("File exists"), std::string::npos) << failure;
  }
  run.save(*files, 3);
  EXPECT_EQ(newest_good(*files, {})->state.at("seed"), 5);
}

}  // namespace
}  // namespace tessera

// Where the order of arithmetic is the same, the bits are.
#include <gtest/gtest.h>

#include "base/testing/share.h"
#include "support/record.h"
#include "support/tiny.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

const std::vector<std::string> kTypes = {" dtype=f64", " dtype=f32", " dtype=bf16", " dtype=f16"};

// Every mesh in every type: a third in each commit, of several types and meshes.
std::vector<std::string> some_of(const std::vector<std::string>& meshes,
                                 const std::vector<std::string>& types) {
  std::vector<std::string> lines;
  for (const std::string& mesh : meshes) {
    for (const std::string& type : types) lines.push_back(mesh + type);
  }
  return share_of(lines, 3);
}

TEST(BitwiseTest, ZeroStagesAgree) {
  for (const std::string& line :
       some_of({"dp=2 global_batch=2", "dp=2 cp=2 global_batch=2", "dp=3 global_batch=3",
                "dp=3 global_batch=6 grad_reduce=step", "fsdp=2 global_batch=8 grad_reduce=step",
                "fsdp=2 global_batch=8 grad_reduce=micro_batch",
                "dp=2 fsdp=2 tp=2 global_batch=8 sequence_parallel=true grad_reduce=micro_batch"},
               kTypes)) {
    const TinyCase zero0 = parse_case(line + " zero=0");
    const SampleSource samples = random_samples(zero0.spec, "some");
    const std::vector<StepRecord> reference = record(zero0.spec, samples);
    for (const char* stage : {" zero=1", " zero=2", " zero=3"}) {
      SCOPED_TRACE(line + stage);
      expect_equal(record(parse_case(line + stage).spec, samples), reference, 0.0);
    }
  }
}

TEST(BitwiseTest, OverlapChangesNothing) {
  for (const std::string& line :
       some_of({"dp=2 global_batch=8", "fsdp=2 tp=2 zero=3 global_batch=8 sequence_parallel=true",
                "dp=2 fsdp=2 tp=2 zero=2 global_batch=8", "dp=2 pp=2 zero=1 global_batch=8",
                "pp=2 tp=2 fsdp=2 zero=3 global_batch=8 sequence_parallel=true"},
               kTypes)) {
    SCOPED_TRACE(line);
    const TinyCase on = parse_case(line);
    const SampleSource samples = random_samples(on.spec, "some");
    expect_equal(record(parse_case(line + " overlap=false").spec, samples),
                 record(on.spec, samples), 0.0);
  }
}

// Each of them runs micro-batches forward, and backward, in order: the sums are the same, and so is
// the norm that clips, whoever has which layers. A tied weight has one gradient for each end of the
// model, also where one rank has both.
TEST(BitwiseTest, SchedulesAgree) {
  for (const std::string& line :
       some_of({"pp=2 layers=4 global_batch=4", "pp=2 dp=2 zero=1 layers=5 global_batch=8",
                "pp=2 dp=2 zero=1 layers=4 global_batch=8 tied=true",
                "pp=2 fsdp=2 zero=3 layers=4 global_batch=8 tied=true",
                "pp=2 fsdp=2 tp=2 zero=3 layers=4 global_batch=8 sequence_parallel=true"},
               {" clip=0.05 dtype=f64", " clip=0.05 dtype=bf16"})) {
    const TinyCase naive = parse_case(line + " schedule=naive");
    const SampleSource samples = random_samples(naive.spec, "some");
    const std::vector<StepRecord> reference = record(naive.spec, samples);
    for (const char* schedule :
         {" schedule=gpipe", " schedule=1f1b", " schedule=interleaved virtual_stages=2",
          " schedule=zb-h1", " schedule=zb-h2", " schedule=zb-v", " schedule=dualpipe-v"}) {
      SCOPED_TRACE(line + schedule);
      expect_equal(record(parse_case(line + schedule).spec, samples), reference, 0.0);
    }
  }
}

TEST(BitwiseTest, RecomputationChangesNothing) {
  for (const std::string& line :
       some_of({"dp=2 global_batch=4", "tp=2 sequence_parallel=true layers=3",
                "fsdp=2 pp=2 zero=3 layers=4 global_batch=8", "cp=2 seq_len=8 layers=3"},
               kTypes)) {
    const TinyCase kept = parse_case(line);
    const SampleSource samples = random_samples(kept.spec, "some");
    const std::vector<StepRecord> reference = record(kept.spec, samples);
    for (const char* choice : {" recompute=norms", " recompute=light", " recompute=selective",
                               " recompute=full", " recompute=every-2"}) {
      SCOPED_TRACE(line + choice);
      expect_equal(record(parse_case(line + choice).spec, samples), reference, 0.0);
    }
  }
}

TEST(BitwiseTest, TwoRunsAgree) {
  for (const char* line :
       {"dp=2 fsdp=2 tp=2 zero=3 global_batch=8 sequence_parallel=true dtype=f32",
        "dp=2 tp=2 zero=1 dtype=bf16", "dp=1 dtype=f32 threads=3", "cp=4 zero=2 dtype=bf16",
        "cp=2 tp=2 cp_kind=ulysses sequence_parallel=true dtype=f32"}) {
    SCOPED_TRACE(line);
    const TinyCase c = parse_case(line);
    const SampleSource samples = random_samples(c.spec, "some");
    expect_equal(record(c.spec, samples), record(c.spec, samples), 0.0);
  }
}

// The oracle must not depend on how the batch is cut, nor the check on luck: another seed differs.
TEST(BitwiseTest, AnotherSeedDiffers) {
  TinyCase c = parse_case("dp=1");
  const SampleSource samples = random_samples(c.spec, "none");
  const std::vector<StepRecord> a = record(c.spec, samples);
  c.spec.train.seed = 2;
  const std::vector<StepRecord> b = record(c.spec, samples);
  EXPECT_GT(differences(b[0].weights, a[0].weights)[0].relative, 1e-3);
}

}  // namespace
}  // namespace tessera

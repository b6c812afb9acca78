// With lanes, no bit of a run depends on how many replicas it has (docs/decisions/018-lanes.md).
#include <gtest/gtest.h>

#include "support/record.h"
#include "support/tiny.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

std::vector<StepRecord> record_case(const std::string& line) {
  const TinyCase c = parse_case(line);
  return record(c.spec, random_samples(c.spec, "some"));
}

void expect_same_bits(const std::string& line, const std::vector<StepRecord>& reference) {
  SCOPED_TRACE(line);
  const std::vector<StepRecord> mine = record_case(line);
  expect_equal(mine, reference, 0.0);
  for (size_t s = 0; s < mine.size(); ++s) {
    EXPECT_EQ(mine[s].loss, reference[s].loss) << "step " << s + 1;
    EXPECT_EQ(mine[s].grad_norm, reference[s].grad_norm) << "step " << s + 1;
  }
}

constexpr const char* kReplicas[] = {"dp=2 zero=0",        "dp=3 zero=1",        "dp=4 zero=2",
                                     "dp=3 zero=3",        "fsdp=2 zero=2",      "fsdp=3 zero=3",
                                     "dp=2 fsdp=2 zero=3", "dp=2 fsdp=2 zero=1", "dp=4 zero=0"};
// Clipped at every step, with masks of dropout.
constexpr const char* kRun = " lanes=4 global_batch=8 clip=0.05 dropout=0.1 loss_chunk=5";

TEST(LanesTest, BitsDoNotDependOnReplicas) {
  for (const std::string dtype :
       {" dtype=f32", " dtype=bf16", " dtype=bf16 gradients=bf16", " dtype=f16", " dtype=f64"}) {
    const std::string rest = kRun + dtype;
    const std::vector<StepRecord> reference = record_case("dp=1" + rest);
    for (const char* replicas : kReplicas) expect_same_bits(replicas + rest, reference);
  }
}

TEST(LanesTest, BesideTensorAndPipelineParallelism) {
  for (const std::string beside :
       {" tp=2 dtype=f32", " tp=2 sequence_parallel=true dtype=bf16 qk_norm=true",
        " pp=2 layers=4 dtype=f32 tied=true", " pp=2 layers=4 schedule=zb-h1 dtype=bf16",
        " pp=2 layers=4 schedule=gpipe dtype=f32", " pp=2 layers=4 schedule=zb-v dtype=f32",
        " pp=2 tp=2 layers=4 schedule=interleaved virtual_stages=2 sequence_parallel=true "
        "dtype=bf16"}) {
    const std::string rest = kRun + beside;
    const std::vector<StepRecord> reference = record_case("dp=1 zero=0" + rest);
    for (const char* replicas : {"dp=2 zero=1", "dp=3 zero=0", "fsdp=3 zero=3", "dp=4 zero=2"}) {
      expect_same_bits(replicas + rest, reference);
    }
  }
}

// Eight lanes on five replicas are 2, 2, 2, 1 and 1 of them.
TEST(LanesTest, AnyNumberOfReplicas) {
  const std::string rest = " lanes=8 global_batch=16 clip=0.05 dtype=f32";
  const std::vector<StepRecord> reference = record_case("dp=1" + rest);
  for (const char* replicas : {"dp=5 zero=1", "dp=6 zero=0", "dp=7 zero=2", "fsdp=5 zero=3",
                               "dp=3 fsdp=2 zero=3", "fsdp=6 release_after_forward=false"}) {
    expect_same_bits(replicas + rest, reference);
  }
}

// Two groups do the same, and count as one.
TEST(LanesTest, ASecondGroupChangesNothing) {
  const std::string rest = " lanes=4 global_batch=8 clip=0.05 dropout=0.1 dtype=f32";
  const std::vector<StepRecord> reference = record_case("dp=1" + rest);
  for (const char* replicas : {"dp=2 zero=0", "dp=4 zero=1", "dp=6 zero=2", "dp=8 zero=3",
                               "dp=2 fsdp=2 zero=3", "dp=2 fsdp=4 zero=1"}) {
    expect_same_bits(replicas + rest + " redundancy=2", reference);
  }
}

// The tests above can fail: as dp has it, the order of additions is another one for every dp.
TEST(LanesTest, WithoutLanesBitsDiffer) {
  const std::string rest = " lanes=0 global_batch=8 clip=0.05 dtype=f32";
  const std::vector<StepRecord> two = record_case("dp=2" + rest);
  const std::vector<StepRecord> four = record_case("dp=4" + rest);
  bool differ = false;
  for (const Difference& d : differences(two.back().weights, four.back().weights)) {
    differ = differ || d.relative > 0;
  }
  EXPECT_TRUE(differ);
}

}  // namespace
}  // namespace tessera

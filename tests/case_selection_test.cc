// The choice of a commit's lines and the random meshes reach what they are meant to reach.
#include "support/case_selection.h"

#include <gtest/gtest.h>

#include <map>

#include "support/random_case.h"

namespace tessera {
namespace {

using namespace testing;  // what is tested

std::vector<std::string> all_cases() {
  return read_cases(std::string(TESSERA_SOURCE_DIR) + "/tests/equivalence");
}

std::set<FeaturePair> pairs_of_all(const std::vector<std::string>& lines) {
  std::set<FeaturePair> pairs;
  for (const std::string& line : lines) pairs.merge(pairs_of(features_of(line)));
  return pairs;
}

TEST(CaseSelectionTest, FeaturesAreWhatDiffersFromTheTinyModel) {
  EXPECT_TRUE(features_of("dp=1 global_batch=1").empty());
  EXPECT_EQ(features_of("dp=2 zero=2 vocab=37 tied=true mask=some global_batch=2"),
            (std::vector<std::string>{"dp", "mask=some", "tied=true", "vocab", "zero=2"}));
  EXPECT_EQ(
      features_of("fsdp=2 global_batch=4"),
      (std::vector<std::string>{"accumulation", "fsdp", "grad_reduce=\"micro_batch\"", "zero=3"}));
}

TEST(CaseSelectionTest, TheCoverHasEveryPairAndIsSmaller) {
  const std::vector<std::string> lines = all_cases();
  const Selection selection = select_cases(lines, 0, 4);
  EXPECT_EQ(pairs_of_all(selection.cover), pairs_of_all(lines));
  EXPECT_LT(selection.cover.size(), lines.size() / 2);
}

TEST(CaseSelectionTest, RotationsReachEveryLineOnce) {
  const std::vector<std::string> lines = all_cases();
  std::map<std::string, int> times;
  for (int64_t rotation = 0; rotation < 4; ++rotation) {
    const Selection selection = select_cases(lines, rotation, 4);
    if (rotation == 0) {
      for (const std::string& line : selection.cover) ++times[line];
    }
    for (const std::string& line : selection.others) ++times[line];
  }
  for (const std::string& line : lines) EXPECT_EQ(times[line], 1) << line;
}

TEST(CaseSelectionTest, RefusesWhatIsNoKey) {
  EXPECT_THROW(parse_case("dp=2 no_such_key=1"), ConfigError);
  EXPECT_THROW(parse_case("dp"), ConfigError);
  EXPECT_THROW(parse_case("zero=7"), ConfigError);
}

TEST(RandomCaseTest, DependsOnTheSeedAlone) {
  EXPECT_EQ(random_case(3), random_case(3));
  EXPECT_NE(random_case(3), random_case(4));
}

// The draw must reach what it is about; otherwise change the table.
TEST(RandomCaseTest, ReachesEveryFeatureOfTheFiles) {
  std::vector<std::string> drawn;
  for (uint64_t seed = 0; seed < 200; ++seed) drawn.push_back(random_case(seed));
  std::map<std::string, int> count;
  for (const std::string& line : drawn) {
    for (const std::string& feature : features_of(line)) ++count[feature];
    EXPECT_LE(parse_case(line).spec.parallel.world(), kMaxWorld);
  }
  for (const char* feature : {"accumulation",
                              "dp",
                              "fsdp",
                              "tp",
                              "zero=1",
                              "zero=2",
                              "zero=3",
                              "sequence_parallel=true",
                              "tied=true",
                              "vocab",
                              "ffn",
                              "kv_heads",
                              "mask=some",
                              "mask=replica",
                              "seq_len",
                              "loss_chunk",
                              "overlap=false",
                              "pp",
                              "cp",
                              "cp_kind=\"ulysses\"",
                              "schedule=\"zb-v\"",
                              "recompute=\"full\"",
                              "family=\"mixtral\""}) {
    EXPECT_GE(count[feature], 10) << feature;
  }
}

}  // namespace
}  // namespace tessera

// Documents that share a sequence: what stands in one must not change what another one learns, and
// every mesh learns the same from them.
#include <gtest/gtest.h>

#include "base/testing/test_folder.h"
#include "support/record.h"
#include "support/tiny.h"
#include "support/token_sets.h"
#include "support/two_documents.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

TEST(DocumentsTest, NothingLeaksOverABorder) {
  for (const std::string mesh :
       {"dp=1", "dp=2 zero=3", "tp=2 sequence_parallel=true", "cp=2", "cp=3",
        "cp=2 cp_kind=allgather", "cp=2 cp_kind=ulysses", "pp=2 layers=4",
        "pp=2 cp=2 layers=2 micro_batch=2 global_batch=8", "family=gpt2 positions=learned"}) {
    SCOPED_TRACE(mesh);
    expect_borders_to_hold(mesh);
  }
}

// Two sets by weight, whose documents share sequences: the windows, the borders and what is
// learned.
TEST(DocumentsTest, MixturesOfSetsTrainTheSameOnEveryMesh) {
  const TestFolder folder;
  const std::string a = make_token_set(folder.path("a"), 1, 60, 40);
  const std::string b = make_token_set(folder.path("b"), 2, 90, 40);
  const auto steps = [&](const std::string& mesh, bool masks) {
    const std::string mask = masks ? " document_mask=true end_token=0" : "";
    RunSpec spec = parse_case(mesh + " vocab=40 seq_len=24 layers=4" + mask).spec;
    spec.data.mix = {{.path = a, .weight = 2}, {.path = b, .weight = 1}};
    return record(spec, training_samples(spec).fill);
  };
  const std::vector<StepRecord> one = steps("dp=1", true);
  for (const std::string mesh :
       {"dp=2 zero=3", "tp=2 sequence_parallel=true", "cp=2", "cp=2 cp_kind=allgather",
        "cp=2 cp_kind=ulysses", "pp=2", "pp=2 cp=2", "pp=2 cp=2 cp_kind=allgather"}) {
    SCOPED_TRACE(mesh);
    expect_equal(steps(mesh, true), one, 1e-12);
  }
  EXPECT_GT(std::abs(steps("dp=1", false).front().loss - one.front().loss), 1e-6)
      << "the mask changes nothing";
}

TEST(DocumentsTest, AreRefusedWithoutAnEnd) {
  EXPECT_THROW(parse_case("document_mask=true"), ConfigError);
  EXPECT_THROW(parse_case("document_mask=true vocab=9 end_token=9"), ConfigError);
}

}  // namespace
}  // namespace tessera

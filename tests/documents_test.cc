// A planted leak: what stands in one document must not change what another one learns.
#include <gtest/gtest.h>

#include "support/record.h"
#include "support/tiny.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

constexpr size_t kBorder = 5;  // where the first document ends
constexpr int32_t kEnd = 3;

// Nothing is learned of the first document; `variant` says what stands there.
SampleSource two_documents(const RunSpec& spec, uint64_t variant) {
  const SampleSource random = random_samples(spec, "none");
  return [=](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
    random(sample, tokens, labels);
    for (size_t t = 0; t < tokens.size(); ++t) {
      if (tokens[t] == kEnd) tokens[t] = kEnd + 1;
      if (t > kBorder) continue;
      tokens[t] = static_cast<int32_t>((static_cast<uint64_t>(tokens[t]) + variant) % kEnd);
      labels[t] = -100;
    }
    tokens[kBorder] = kEnd;
  };
}

// Whether the first step is the same, bit for bit, whatever stands in the first document.
bool learns_the_same(const std::string& line) {
  const RunSpec spec = parse_case(line + " steps=1 vocab=11 seq_len=12").spec;
  const StepRecord one = record(spec, two_documents(spec, 0)).front();
  const StepRecord other = record(spec, two_documents(spec, 1)).front();
  EXPECT_GT(one.grad_norm, 1e-3) << "there is nothing to compare";
  bool same = one.loss == other.loss;
  for (const Difference& d : differences(one.gradients, other.gradients)) {
    same = same && d.relative == 0;
  }
  return same;
}

TEST(DocumentsTest, NothingLeaksOverABorder) {
  for (const std::string mesh :
       {"dp=1", "dp=2 zero=3", "tp=2 sequence_parallel=true", "cp=2", "cp=3",
        "cp=2 cp_kind=allgather", "cp=2 cp_kind=ulysses", "pp=2 layers=4",
        "pp=2 cp=2 layers=2 micro_batch=2 global_batch=8", "family=gpt2 positions=learned"}) {
    SCOPED_TRACE(mesh);
    EXPECT_TRUE(learns_the_same(mesh + " document_mask=true end_token=3"));
    EXPECT_FALSE(learns_the_same(mesh)) << "the comparison finds no leak";
    EXPECT_FALSE(learns_the_same(mesh + " document_mask=true end_token=10"))
        << "a border elsewhere is none here";
  }
}

TEST(DocumentsTest, AreRefusedWithoutAnEnd) {
  EXPECT_THROW(parse_case("document_mask=true"), ConfigError);
  EXPECT_THROW(parse_case("document_mask=true vocab=9 end_token=9"), ConfigError);
}

}  // namespace
}  // namespace tessera

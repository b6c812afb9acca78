// A planted leak: samples whose first document varies, and whether a run learns of it.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "support/record.h"
#include "support/tiny.h"

namespace tessera::testing {

inline constexpr size_t kBorder = 5;  // where the first document ends
inline constexpr int32_t kDocumentEnd = 3;

// Nothing is learned of the first document; `variant` says what stands there.
inline SampleSource two_documents(const RunSpec& spec, uint64_t variant) {
  const SampleSource random = random_samples(spec, "none");
  return [=](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
    random(sample, tokens, labels);
    for (size_t t = 0; t < tokens.size(); ++t) {
      if (tokens[t] == kDocumentEnd) tokens[t] = kDocumentEnd + 1;
      if (t > kBorder) continue;
      tokens[t] = static_cast<int32_t>((static_cast<uint64_t>(tokens[t]) + variant) % kDocumentEnd);
      labels[t] = -100;
    }
    tokens[kBorder] = kDocumentEnd;
  };
}

// Whether the first step is the same, bit for bit, whatever stands in the first document. `line`:
// for parse_case().
inline bool learns_the_same(const std::string& line) {
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

// Borders hide the first document, none or another one does not.
inline void expect_borders_to_hold(const std::string& line) {
  EXPECT_TRUE(learns_the_same(line + " document_mask=true end_token=3"));
  EXPECT_FALSE(learns_the_same(line)) << "the comparison finds no leak";
  EXPECT_FALSE(learns_the_same(line + " document_mask=true end_token=10"))
      << "a border elsewhere is none here";
}

}  // namespace tessera::testing

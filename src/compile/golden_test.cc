// The whole program of one rank as text. After a change that is meant:
//   TESSERA_UPDATE_GOLDEN=1 compile_test --gtest_filter='Golden*'
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

std::string program_text(const std::string& mesh) {
  RunSpec spec = testing::small_spec(mesh);
  spec.model.layers = 1;
  spec.model.hidden = 8;
  spec.model.ffn = 16;
  spec.model.heads = 2;
  spec.model.kv_heads = 2;
  spec.model.vocab = 32;
  return to_text(lower(build_step(testing::resolved(spec), StepKind::kTraining), 0));
}

// The first line that differs says more than two whole files.
std::string first_difference(const std::string& expected, const std::string& actual) {
  std::istringstream a(expected), b(actual);
  std::string want, have;
  for (int line = 1;; ++line) {
    const bool more_a = static_cast<bool>(std::getline(a, want));
    const bool more_b = static_cast<bool>(std::getline(b, have));
    if (!more_a && !more_b) return "";
    if (more_a == more_b && want == have) continue;
    return fmt::format("line {}\n  golden: {}\n  now:    {}", line, more_a ? want : "(ends)",
                       more_b ? have : "(ends)");
  }
}

void expect_golden(const std::string& file, const std::string& text) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/tests/golden/" + file;
  if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in.is_open()) << path << " is missing: run with TESSERA_UPDATE_GOLDEN=1";
  std::stringstream golden;
  golden << in.rdbuf();
  EXPECT_EQ(first_difference(golden.str(), text), "") << path;
}

TEST(Golden, DataAndTensorParallelWithShardedOptimizer) {
  expect_golden("dp2-tp2-zero1.txt", program_text("dp=2,tp=2,zero=1,sequence_parallel=true"));
}

TEST(Golden, FullyShardedWeights) {
  expect_golden("fsdp2-zero3.txt", program_text("fsdp=2,zero=3"));
}

TEST(Golden, ADifferenceIsReported) {
  EXPECT_EQ(first_difference("a\nb\n", "a\nb\n"), "");
  EXPECT_NE(first_difference("a\nb\n", "a\nc\n"), "");
  EXPECT_NE(first_difference("a\nb\n", "a\n"), "");
}

}  // namespace
}  // namespace tessera

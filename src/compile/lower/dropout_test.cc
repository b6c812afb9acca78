// Which masks the programs draw.
#include <gtest/gtest.h>

#include <map>

#include "compile/lower/kernel_args.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;

RunSpec dropping(const std::string& mesh) {
  RunSpec spec = small_spec(mesh);
  spec.model.dropout = 0.1;
  spec.model.attention_dropout = 0.2;
  return resolved(spec);
}

int count(const Program& program) {
  int ops = 0;
  for (const Instruction& i : program.instructions) ops += i.args.dropout > 0 ? 1 : 0;
  return ops;
}

TEST(Dropout, IsInTrainingOnlyAndOffByDefault) {
  const auto ops = [](const RunSpec& spec, StepKind kind) {
    return count(lower(build_step(spec, kind), 0));
  };
  // Embedding, and per block attention and both sums; each once more in backward.
  EXPECT_EQ(ops(dropping("dp=1"), StepKind::kTraining), 2 * (1 + 2 * 3));
  EXPECT_EQ(ops(dropping("dp=1"), StepKind::kForward), 0);
  EXPECT_EQ(ops(resolved(small_spec("dp=1")), StepKind::kTraining), 0);
}

// Every (sequence, position) of the step is dropped by exactly one rank for each unit and site, or
// by all ranks of a tp group alike.
TEST(Dropout, EveryTokenOfTheStepHasOneMask) {
  for (const std::string mesh :
       {"dp=3", "dp=2,fsdp=2", "tp=2", "dp=2,tp=2,sequence_parallel=true"}) {
    SCOPED_TRACE(mesh);
    RunSpec spec = small_spec(mesh);
    spec.model.dropout = 0.1;
    spec.train.micro_batch = 2;
    spec.train.global_batch = 2 * 2 * spec.parallel.replicas();
    resolve(spec);
    const int64_t tokens = spec.train.global_batch * spec.train.seq_len;
    std::map<int64_t, int> seen;  // token of the step -> how often
    for (const Program& program : compile_ranks(build_step(spec, StepKind::kTraining))) {
      for (const Instruction& i : program.instructions) {
        if (i.name != "layers.1.o.dropped" || i.tag.pass != Pass::kForward) continue;
        EXPECT_EQ(i.args.unit, 2);
        EXPECT_EQ(i.args.site, DropoutSite::kAttentionOutput);
        const int64_t rows = program.buffer(i.outputs[0]).shape[0];
        for (int64_t t = 0; t < rows; ++t) {
          ++seen[i.args.first_sample * i.args.seq_len + i.args.first_token + t];
        }
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), tokens);
    EXPECT_EQ(seen.begin()->first, 0);
    EXPECT_EQ(seen.rbegin()->first, tokens - 1);
    const int each = spec.parallel.sequence_parallel ? 1 : static_cast<int>(spec.parallel.tp);
    for (const auto& [token, times] : seen) EXPECT_EQ(times, each) << token;
  }
}

}  // namespace
}  // namespace tessera

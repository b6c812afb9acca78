// Faults of context parallelism, planted into Programs: the comparison with one rank passes without
// them and names what is wrong with them.
#include <gtest/gtest.h>

#include "support/tiny.h"
#include "train/verify/difference.h"
#include "train/verify/verify.h"

namespace tessera {
namespace {

using testing::on_one_rank;
using testing::parse_case;
using testing::random_samples;

using Edit = std::function<void(Program& program, Instruction& instruction)>;

// The first tensor, in the order of the model, whose gradient differs from that of one rank.
std::string first_wrong_gradient(const std::string& mesh, const Edit& edit,
                                 const Injection& inject = {}) {
  const testing::TinyCase c = parse_case(mesh);
  ShortRun run;
  run.spec = c.spec;
  run.steps = 1;
  run.samples = random_samples(c.spec, "none");
  ShortRun alone = run;
  alone.spec = on_one_rank(c.spec);
  run.inject = inject;
  run.edit_programs = [&](std::vector<Program>& programs) {
    for (Program& program : programs) {
      for (Instruction& instruction : program.instructions) {
        if (edit) edit(program, instruction);
      }
    }
  };
  const std::vector<StepRecord> mine = record_run(run);
  const std::vector<StepRecord> oracle = record_run(alone);
  for (const Difference& d : differences(mine[0].gradients, oracle[0].gradients)) {
    if (exceeds(d.relative, 1e-12)) {
      EXPECT_FALSE(d.relative <= 1e-6) << "hardly above rounding";
      return d.name;
    }
  }
  return "";
}

Injection dropped(const std::string& tensor) {
  return parse_injection("drop-cast:tensor=" + tensor);
}

const char* const kEmbedding = "model.embed_tokens.weight";
const char* const kKinds[] = {"ring", "allgather", "ulysses"};

TEST(ContextControl, NothingIsWrongWithoutAFault) {
  for (const char* kind : kKinds) {
    EXPECT_EQ(first_wrong_gradient(fmt::format("cp=2 cp_kind={}", kind), {}), "") << kind;
  }
}

// A rank takes the rows of the other part for its own.
TEST(ContextControl, WrongChunkOrder) {
  for (const char* kind : kKinds) {
    const auto swapped = [](Program& program, Instruction& i) {
      const bool reads = i.op == OpKind::kAttention || i.op == OpKind::kAttentionPart;
      if (reads && program.rank == 1) i.args.q_part = i.args.q_part == 0 ? 1 : 0;
    };
    const std::string mesh = fmt::format("cp=2 cp_kind={}", kind);
    if (std::string(kind) == "ulysses") continue;  // its rows are of all parts
    EXPECT_EQ(first_wrong_gradient(mesh, swapped), kEmbedding) << kind;
  }
  const auto in_order = [](Program&, Instruction& i) {
    if (i.op != OpKind::kAttention && i.op != OpKind::kAttentionGrad) return;
    i.args.parts = 1;
    i.args.q_part = i.args.kv_part = 0;
  };
  EXPECT_EQ(first_wrong_gradient("cp=2 cp_kind=ulysses", in_order), kEmbedding);
}

TEST(ContextControl, ARingStepIsSkipped) {
  EXPECT_EQ(first_wrong_gradient("cp=3 seq_len=12", {}, dropped("layers.0.kv.rope.hop2")),
            kEmbedding);
  EXPECT_EQ(first_wrong_gradient("cp=3 seq_len=12", {}, dropped("layers.1.kv.rope.hop1.again")),
            kEmbedding);
}

// A hop starts afresh instead of going on from what is known: early queries are left without keys,
// and NaN is a difference too.
TEST(ContextControl, TheMergeIsDropped) {
  EXPECT_EQ(first_wrong_gradient("cp=2",
                                 [](Program&, Instruction& i) {
                                   if (i.name == "layers.1.attn.hop1") i.inputs.resize(2);
                                 }),
            kEmbedding);
}

// The queries of layer 1 are right, and so is everything behind it; its keys are not.
TEST(ContextControl, TheGradientOfKeysDoesNotComeHome) {
  const std::string last =
      first_wrong_gradient("cp=2 layers=1", {}, dropped("d(layers.0.kv.rope).home"));
  EXPECT_EQ(last, kEmbedding);
  EXPECT_EQ(first_wrong_gradient("cp=2 layers=1", {}, dropped("d(layers.0.kv.rope).hop1")),
            kEmbedding);
}

TEST(ContextControl, ACollectiveOfTheOtherKindsIsDropped) {
  EXPECT_EQ(first_wrong_gradient("cp=2 cp_kind=allgather", {}, dropped("layers.0.kv.all")),
            kEmbedding);
  EXPECT_EQ(first_wrong_gradient("cp=2 cp_kind=ulysses", {}, dropped("layers.0.q.heads")),
            kEmbedding);
  EXPECT_EQ(first_wrong_gradient("cp=2 cp_kind=ulysses", {}, dropped("layers.1.attn.tokens")),
            kEmbedding);
}

// One all-reduce over dp and cp: without it every rank keeps the gradient of its own tokens.
TEST(ContextControl, TheGradientSumOverCpIsDropped) {
  EXPECT_EQ(first_wrong_gradient("dp=2 cp=2 zero=0", {}, dropped("d(layers.1.matrices)")),
            "model.layers.1.self_attn.q_proj.weight");
}

}  // namespace
}  // namespace tessera

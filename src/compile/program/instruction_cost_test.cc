// Costs of instructions, beside values computed by hand.
#include "compile/program/instruction_cost.h"

#include <gtest/gtest.h>

#include "compile/model/model_flops.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;

// Two blocks: hidden 16, ffn 24, four heads of 4, vocabulary 40; one sequence of 8 tokens.
Program program_of(const RunSpec& spec, int rank = 0) {
  return lower(build_step(spec, StepKind::kTraining), rank);
}
Program small_program(const std::string& mesh = "dp=1") {
  return program_of(resolved(small_spec(mesh)));
}

InstructionCost cost_of_first(const Program& program, OpKind op, const std::string& name) {
  for (const Instruction& i : program.instructions) {
    if (i.op == op && i.name == name) return cost_of(program, i);
  }
  ADD_FAILURE() << "no " << name_of(op) << " '" << name << "'";
  return {};
}

void expect_cost(const InstructionCost& cost, OpClass op_class, int64_t flops, int64_t read,
                 int64_t written) {
  EXPECT_EQ(name_of(cost.op_class), name_of(op_class));
  EXPECT_EQ(cost.flops, flops);
  EXPECT_EQ(cost.bytes_read, read);
  EXPECT_EQ(cost.bytes_written, written);
}

int64_t flops_of(const Program& program, OpClass op_class) {
  int64_t sum = 0;
  for (const Instruction& i : program.instructions) {
    const InstructionCost cost = cost_of(program, i);
    if (cost.op_class == op_class) sum += cost.flops;
  }
  return sum;
}

TEST(InstructionCost, OfProducts) {
  const Program program = small_program();
  // [8, 16] x [48, 16] -> [8, 48], f32
  expect_cost(cost_of_first(program, OpKind::kLinear, "layers.0.gate_up"), OpClass::kProducts,
              2 * 8 * 48 * 16, (8 * 16 + 48 * 16) * 4, 8 * 48 * 4);
  expect_cost(cost_of_first(program, OpKind::kLinearDw, "d(layers.0.gate_up.weight)"),
              OpClass::kProducts, 2 * 8 * 48 * 16, (8 * 48 + 8 * 16) * 4, 48 * 16 * 4);
}

// Every row is read once; of later micro-batches also the gradient of the weight, not dx.
TEST(InstructionCost, OfTheGradientsOfANorm) {
  RunSpec spec = small_spec("dp=1");
  spec.train.device = TrainDevice::kCuda;
  spec.train.global_batch = 2;
  const Program program = program_of(resolved(spec));
  int found = 0;
  for (const Instruction& i : program.instructions) {
    if (i.op != OpKind::kRmsNormGrad) continue;
    const int64_t rows = i.inputs.size() == 5 ? 3 : 2;  // dy, x, the residual's gradient
    const int64_t added = i.micro_batch == 0 ? 0 : 16;
    expect_cost(cost_of(program, i), OpClass::kNorms, 0, (rows * 8 * 16 + 16 + 8 + added) * 4,
                (8 * 16 + 16) * 4);
    ++found;
  }
  EXPECT_EQ(found, 10);
}

TEST(InstructionCost, OfAttention) {
  const Program program = small_program();
  const int64_t pairs = 8 * 9 / 2;
  const int64_t q = 8 * 16 * 4, kv = 2 * q, lse = 8 * 4 * 4;
  expect_cost(cost_of_first(program, OpKind::kAttention, "layers.0.attn"), OpClass::kAttention,
              2 * 2 * pairs * 16, q + kv, q + lse);
  EXPECT_EQ(flops_of(program, OpClass::kAttention), 2 * (2 + 5) * 2 * pairs * 16);
}

TEST(InstructionCost, AWindowLeavesKeysOut) {
  RunSpec spec = small_spec("dp=1");
  spec.model.sliding_window = 3;
  const int64_t pairs = 1 + 2 + 6 * 3;
  EXPECT_EQ(flops_of(program_of(resolved(spec)), OpClass::kAttention),
            2 * (2 + 5) * 2 * pairs * 16);
}

TEST(InstructionCost, PartsOfARingAddUpToTheWhole) {
  const int64_t whole = flops_of(small_program(), OpClass::kAttention);
  for (const char* kind : {"ring", "allgather", "ulysses"}) {
    int64_t parts = 0;
    const RunSpec spec = resolved(small_spec(fmt::format("cp=2,cp_kind={}", kind)));
    for (const int rank : {0, 1}) parts += flops_of(program_of(spec, rank), OpClass::kAttention);
    EXPECT_EQ(parts, whole) << kind;
  }
}

TEST(InstructionCost, OfWhatIsBoundByItsBytes) {
  const Program program = small_program();
  const int64_t row = 16 * 4, tokens = 8 * 4;
  expect_cost(cost_of_first(program, OpKind::kEmbedding, "embed"), OpClass::kEmbedding, 0,
              tokens + 8 * row, 8 * row);
  expect_cost(cost_of_first(program, OpKind::kSwiGlu, "layers.0.swiglu"), OpClass::kActivations, 0,
              8 * 48 * 4, 8 * 24 * 4);
  // q is turned whole, keys and values by half; cos and sin have 8 rows of 2.
  const int64_t tables = 2 * 8 * 2 * 4;
  expect_cost(cost_of_first(program, OpKind::kRope, "layers.0.q.rope"), OpClass::kActivations, 0,
              8 * row + tables, 8 * row);
  expect_cost(cost_of_first(program, OpKind::kRope, "layers.0.kv.rope"), OpClass::kActivations, 0,
              8 * row + tables, 8 * row);
  expect_cost(cost_of_first(program, OpKind::kRmsNorm, "layers.0.attn_norm"), OpClass::kNorms, 0,
              8 * row + row, 8 * row + 8 * 4);
}

TEST(InstructionCost, OfTheOptimizer) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    RunSpec spec = small_spec("dp=1");
    spec.train.dtype = dtype;
    const Program program = program_of(resolved(spec));
    int64_t n = 0;  // in all buckets
    for (const BucketBuffers& bucket : program.buckets) n += numel(program.buffer(bucket.m).shape);
    const std::string more = fmt::format(" and {} more", program.buckets.size() - 1);
    const InstructionCost squares =
        cost_of_first(program, OpKind::kSumSquares, "embed.matrices.sum_squares" + more);
    EXPECT_EQ(squares.bytes_read, 4 * n);
    EXPECT_EQ(squares.bytes_written, 8 * static_cast<int64_t>(program.buckets.size()));
    const InstructionCost cost =
        cost_of_first(program, OpKind::kAdamW, "embed.matrices.updated" + more);
    // Gradient, m, v; and the weight, the weight and its rest, or the master copy, with which the
    // weight is only written.
    EXPECT_EQ(cost.bytes_read, 16 * n);
    EXPECT_EQ(cost.bytes_written, (dtype == DType::kF16 ? 14 : 12) * n);
    EXPECT_EQ(cost.op_class, OpClass::kOptimizer);
  }
}

TEST(InstructionCost, CollectivesCommunicate) {
  const Program program = small_program("dp=2");
  for (const Instruction& i : program.instructions) {
    EXPECT_EQ(cost_of(program, i).op_class == OpClass::kCommunication,
              i.stream != StreamKind::kCompute);
  }
}

// What programs do is what the model needs, however it is split.
TEST(ModelFlops, AreThoseOfTheProducts) {
  for (const char* mesh : {"dp=1", "dp=2", "tp=2", "fsdp=2,tp=2,sequence_parallel=true"}) {
    for (const MlpKind mlp : {MlpKind::kSwiglu, MlpKind::kGelu}) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, name_of(mlp)));
      RunSpec spec = small_spec(mesh);
      spec.model.mlp = mlp;
      spec = resolved(spec);
      int64_t flops = 0;
      for (int rank = 0; rank < static_cast<int>(spec.parallel.world()); ++rank) {
        flops += flops_of(program_of(spec, rank), OpClass::kProducts);
      }
      EXPECT_EQ(static_cast<double>(flops), model_flops(spec).products);
    }
  }
}

TEST(ModelFlops, OfGpt2) {
  RunSpec spec;
  spec.model = find_model("gpt2").model;
  spec.train.seq_len = 1024;
  spec.train.micro_batch = 64;
  spec = resolved(spec);
  const double weights = 12.0 * 12 * 768 * 768 + 768.0 * 50257;
  EXPECT_EQ(static_cast<double>(product_weights(spec.model)), weights);
  EXPECT_DOUBLE_EQ(model_flops(spec).products, 6 * weights * 65536);
  EXPECT_DOUBLE_EQ(model_flops(spec).attention, 6.0 * 12 * 65536 * 1024 * 768);
}

}  // namespace
}  // namespace tessera

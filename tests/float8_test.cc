// Products in 8 bits in whole runs: gradients of every family and recipe are within their bound of
// exact ones, which faults break; ranks agree on scales; and the loss follows that of bf16.
#include <gtest/gtest.h>

#include "support/bf16_bound.h"
#include "train/verify/compare_types.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

constexpr Fp8Recipe kRecipes[] = {Fp8Recipe::kTensor, Fp8Recipe::kRow, Fp8Recipe::kBlock};

RunSpec in_fp8(RunSpec spec, Fp8Recipe recipe) {
  spec.train.dtype = DType::kBF16;
  spec.train.fp8 = {.asked = true, .recipe = recipe};
  resolve(spec);
  return spec;
}

// As bf16_bound(), with three times the largest error of one rounding to E4M3: those of many
// elements even out. Gradients in E5M2, twice as coarse, keep within it too.
double fp8_bound(const std::string& tensor, int64_t layers) {
  return 3 * std::pow(1.03, depth_of(tensor, layers)) / 16;
}

BoundUse fp8_use(const StepRecord& mine, const StepRecord& reference, int64_t layers) {
  BoundUse most;
  for (const Difference& d : differences(mine.gradients, reference.gradients)) {
    const double part = std::isnan(d.relative) ? std::numeric_limits<double>::infinity()
                                               : d.relative / fp8_bound(d.name, layers);
    if (part > most.part) most = {d.name, part};
  }
  return most;
}

StepRecord first_step_of(const RunSpec& spec, const TensorSource& weights,
                         const std::function<void(std::vector<Program>&)>& edit = {}) {
  ShortRun run = short_run(spec, random_samples(spec, "some"));
  run.steps = 1;
  run.weights = weights;
  run.edit_programs = edit;
  return record_run(run).front();
}

TEST(Fp8BoundTest, HoldsForEveryFamilyAndRecipe) {
  for (const char* model : kHfModels) {
    const RunSpec spec = bound_spec(model);
    if (spec.model.experts > 0) continue;
    const TensorSource weights = bf16_weights(spec.model, kBoundSeeds[0]);
    const StepRecord reference = first_step(spec, weights);
    for (const Fp8Recipe recipe : kRecipes) {
      SCOPED_TRACE(fmt::format("{}, {}", model, name_of(recipe)));
      const BoundUse use =
          fp8_use(first_step(in_fp8(spec, recipe), weights), reference, spec.model.layers);
      EXPECT_LE(use.part, 1) << use.tensor;
      EXPECT_GT(use.part, 0.1) << "the bound finds nothing";
      fmt::print("{}, {}: {:.2f} of the bound in {}\n", model, name_of(recipe), use.part,
                 use.tensor);
    }
  }
}

// Codes of one matrix get a scale that is not theirs, and their product believes it.
TEST(Fp8BoundTest, FindsScalesOfOtherMatrices) {
  const RunSpec spec = bound_spec("llama-gqa");
  const TensorSource weights = bf16_weights(spec.model, kBoundSeeds[0]);
  const StepRecord reference = first_step(spec, weights);
  for (const char* faulty : {"layers.0.q.weight.e4m3", "layers.1.swiglu.e4m3"}) {
    SCOPED_TRACE(faulty);
    bool planted = false;
    const auto swap = [&](std::vector<Program>& programs) {
      for (Program& program : programs) {
        BufferId gradient_amax = kNoBuffer;  // of far smaller numbers, in the same place each step
        for (const Instruction& i : program.instructions) {
          if (i.op == OpKind::kAmax && i.args.scaling[0].format == Float8::kE5M2) {
            gradient_amax = i.outputs[0];
          }
        }
        for (Instruction& i : program.instructions) {
          if (i.op != OpKind::kQuantise || i.name != faulty) continue;
          i.inputs[1] = gradient_amax;
          planted = true;
        }
      }
    };
    const BoundUse use = fp8_use(first_step_of(in_fp8(spec, Fp8Recipe::kTensor), weights, swap),
                                 reference, spec.model.layers);
    EXPECT_TRUE(planted);
    EXPECT_GT(use.part, 1);
  }
}

TEST(Fp8Test, RanksThatDoNotTakeTheLargestOfTheirScalesRoundOtherwise) {
  for (const char* recipe : {"tensor", "row"}) {
    const TinyCase c = parse_case(fmt::format("tp=2 fp8_recipe={}", recipe));
    ShortRun run = short_run(c.spec, random_samples(c.spec, "none"));
    ShortRun alone = run;
    alone.spec = on_one_rank(c.spec);
    const std::vector<StepRecord> oracle = record_run(alone);
    expect_equal(record_run(run), oracle, 1e-12);
    int planted = 0;
    run.edit_programs = [&](std::vector<Program>& programs) {
      for (Program& program : programs) {
        for (Instruction& i : program.instructions) {
          planted += i.maximum ? 1 : 0;
          i.maximum = false;  // their sum
        }
      }
    };
    const std::vector<StepRecord> summed = record_run(run);
    EXPECT_GT(planted, 0);
    double worst = 0;
    for (const Difference& d : differences(summed[0].gradients, oracle[0].gradients)) {
      worst = std::max(worst, d.relative);
    }
    // A scale of twice the size changes what is smallest: far beyond what meshes may differ by.
    EXPECT_GT(worst, 1e-9) << recipe;
  }
}

TEST(Fp8Test, TheLossFollowsThatOfBf16AndNothingIsClipped) {
  for (const Fp8Recipe recipe : kRecipes) {
    TypesOptions options;
    options.mine = options.other = small_spec("dp=1");
    for (RunSpec* spec : {&options.mine, &options.other}) {
      spec->model.vocab = 256;
      spec->train.seq_len = 32;
      spec->train.global_batch = 8;
      spec->train.micro_batch = 4;
      spec->optimizer.lr = 3e-3;
      spec->data.synth_bytes = 20000;
      spec->train.fp8.recipe = Fp8Recipe::kNone;
    }
    compute_in(options.other, "bf16");
    options.mine.train.fp8.recipe = recipe;
    compute_in(options.mine, "fp8");
    options.steps = 30;
    const VerifyReport report = compare_types(options);
    EXPECT_TRUE(report.equal) << report.text;
    ASSERT_FALSE(report.json["quantised"].empty());
    for (const auto& tensor : report.json["quantised"]) {
      EXPECT_EQ(tensor["clipped"], 0) << tensor["name"];
      EXPECT_GT(tensor["values"], 0) << tensor["name"];
    }
    EXPECT_NE(report.text.find("clipped: nothing"), std::string::npos) << report.text;
  }
}

}  // namespace
}  // namespace tessera

#include "cost/hardware/measured_machine.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"
#include "cost/hardware/catalogue.h"
#include "cost/hardware/cluster_file.h"

namespace tessera {
namespace {

double& term(TimeTerms& terms, TimeTerm which) { return terms[static_cast<size_t>(which)]; }

// y[T, F] = x[T, H] w[F, H]
Program product_program(int64_t tokens, int64_t out, int64_t in, DType type = DType::kF32) {
  Program program;
  program.buffers = {{"x", type, {tokens, in}, ArenaKind::kActivations, 0},
                     {"w", type, {out, in}, ArenaKind::kActivations, 0},
                     {"y", type, {tokens, out}, ArenaKind::kActivations, 0}};
  Instruction product;
  product.op = OpKind::kLinear;
  product.inputs = {0, 1};
  product.outputs = {2};
  program.instructions = {product};
  return program;
}

MeasuredKernel kernel_of(const std::string& op, int threads, double flop_s) {
  MeasuredKernel kernel{op, DType::kF32, threads, {}};
  kernel.fit.points = 3;
  term(kernel.fit.seconds, TimeTerm::kCall) = 1e-6;
  term(kernel.fit.seconds, TimeTerm::kFlop) = flop_s;
  return kernel;
}

MeasuredCollective collective_of(int ranks, double call_s) {
  MeasuredCollective collective{"all_reduce", "threads", ranks, {}};
  collective.fit.points = 5;
  term(collective.fit.seconds, TimeTerm::kCall) = call_s;
  term(collective.fit.seconds, TimeTerm::kByte) = 1e-10;
  return collective;
}

CoreSharing shared(int threads, double products, double others) {
  CoreSharing row{threads, {}};
  row.slowdown.fill(others);
  row.slowdown[static_cast<size_t>(OpClass::kProducts)] = products;
  return row;
}

MeasuredMachine machine() {
  MeasuredMachine result;
  result.source = "2026-11-15, tessera calibrate, \"a test\"";
  result.cores = 2;
  result.dispatch_s = 5e-7;
  result.sharing = {shared(1, 1, 1), shared(2, 1.1, 1.5), shared(4, 2.2, 3.25)};
  result.kernels = {kernel_of("linear", 1, 2e-11), kernel_of("linear", 2, 1.2e-11),
                    kernel_of("any products", 1, 3e-11)};
  result.collectives = {collective_of(2, 1e-5), collective_of(4, 3e-5)};
  return result;
}

TEST(MeasuredMachine, PricesAKernelByItsTerms) {
  const Program program = product_program(16, 32, 64);
  EXPECT_DOUBLE_EQ(kernel_s(machine(), program, program.instructions[0]),
                   1e-6 + 2 * 16 * 32 * 64 * 2e-11 + 5e-7);
  EXPECT_TRUE(is_measured(machine(), program, program.instructions[0]));
}

TEST(MeasuredMachine, ExpertsComputeTheRowsThatTokensMake) {
  double flops_of_one = 0;
  for (const char* mesh : {"fsdp=2", "fsdp=2,ep=2"}) {
    RunSpec spec = testing::small_spec(mesh);
    spec.model.family = ModelFamily::kMixtral;
    spec.model.experts = 4;
    spec.model.experts_per_token = 2;
    const RunSpec run = testing::resolved(std::move(spec));
    const std::vector<Program> programs = compile_ranks(build_step(run, StepKind::kTraining));
    double flops = 0;
    for (const Instruction& instruction : programs.front().instructions) {
      if (instruction.op != OpKind::kExpertLinear && instruction.op != OpKind::kExpertLinearDw) {
        continue;
      }
      TimeTerms terms = kernel_terms(programs.front(), instruction);
      flops += term(terms, TimeTerm::kFlop);
    }
    EXPECT_GT(flops, 0) << mesh;
    // Whoever computes them, tokens make as many rows; there is room for more of them with ep.
    if (flops_of_one == 0) flops_of_one = flops;
    EXPECT_DOUBLE_EQ(flops, flops_of_one) << mesh;
  }
}

TEST(MeasuredMachine, TakesTheTeamThatRuns) {
  Program program = product_program(16, 32, 64);
  program.threads = 2;
  EXPECT_DOUBLE_EQ(kernel_s(machine(), program, program.instructions[0]),
                   1e-6 + 2 * 16 * 32 * 64 * 1.2e-11 + 5e-7);
}

TEST(MeasuredMachine, LetsTheClassStandInForAnOpThatWasNotMeasured) {
  Program program = product_program(16, 32, 64);
  program.instructions[0].op = OpKind::kLinearBias;
  EXPECT_FALSE(is_measured(machine(), program, program.instructions[0]));
  EXPECT_DOUBLE_EQ(kernel_s(machine(), program, program.instructions[0]),
                   1e-6 + 2 * 16 * 32 * 64 * 3e-11 + 5e-7);
}

TEST(MeasuredMachine, RefusesWhatItHasNoTimeOf) {
  Program program = product_program(16, 32, 64);
  program.instructions[0].op = OpKind::kCopy;
  try {
    kernel_s(machine(), program, program.instructions[0]);
    FAIL() << "a copy has a price";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("copy in f32"), std::string::npos) << error.what();
  }
  EXPECT_THROW(collective_seconds(machine(), "all_to_all", "threads", 2), ConfigError);
  EXPECT_THROW(collective_seconds(machine(), "all_reduce", "processes", 2), ConfigError);
}

TEST(MeasuredMachine, PricesCollectivesBetweenAndBeyondTheRanksMeasured) {
  const auto call = [](int ranks) {
    return collective_seconds(machine(), "all_reduce", "threads",
                              ranks)[static_cast<size_t>(TimeTerm::kCall)];
  };
  EXPECT_DOUBLE_EQ(call(2), 1e-5);
  EXPECT_DOUBLE_EQ(call(3), 2e-5);
  EXPECT_DOUBLE_EQ(call(4), 3e-5);
  EXPECT_DOUBLE_EQ(call(8), 6e-5);
}

TEST(MeasuredMachine, SlowsDownWithEveryThreadAtWork) {
  EXPECT_DOUBLE_EQ(slowdown(machine(), 1, OpClass::kProducts), 1);
  EXPECT_DOUBLE_EQ(slowdown(machine(), 2, OpClass::kNorms), 1.5);
  EXPECT_DOUBLE_EQ(slowdown(machine(), 3, OpClass::kProducts), 1.65);
  EXPECT_DOUBLE_EQ(slowdown(machine(), 8, OpClass::kProducts), 4.4);
  for (int threads = 1; threads < 20; ++threads) {
    EXPECT_LE(slowdown(machine(), threads, OpClass::kNorms),
              slowdown(machine(), threads + 1, OpClass::kNorms));
  }
}

TEST(MeasuredMachine, CountsBytesBeyondTheCaches) {
  TimeTerms terms = byte_terms(3 << 20);
  EXPECT_EQ(term(terms, TimeTerm::kByte), 3 << 20);
  EXPECT_EQ(term(terms, TimeTerm::kByte256K), (3 << 20) - (1 << 18));
  EXPECT_EQ(term(terms, TimeTerm::kByte2M), 1 << 20);
  EXPECT_EQ(term(terms, TimeTerm::kByte16M), 0);
}

TEST(MeasuredMachine, TellsKernelsApartByTheNarrowestType) {
  Program program = product_program(4, 4, 4, DType::kBF16);
  program.buffers[2].dtype = DType::kF32;
  EXPECT_EQ(kernel_type(program, program.instructions[0]), DType::kBF16);
}

TEST(MeasuredMachine, FitsProductsOfManyShapes) {
  TimeTerms truth{};
  term(truth, TimeTerm::kCall) = 3e-6;
  term(truth, TimeTerm::kFlop) = 2e-11;
  term(truth, TimeTerm::kRight) = 4e-10;
  std::vector<TimeSample> samples;
  for (const int64_t tokens : {16, 64, 256}) {
    for (const int64_t out : {32, 128, 512}) {
      for (const int64_t in : {32, 128, 512}) {
        const Program program = product_program(tokens, out, in);
        const TimeTerms units = kernel_terms(program, program.instructions[0]);
        samples.push_back({units, seconds_of(units, truth)});
      }
    }
  }
  const TimeFit fit = fit_times(samples);
  EXPECT_EQ(fit.points, 27);
  EXPECT_LT(fit.error_pct, 1);
  const Program other = product_program(100, 200, 300);
  const TimeTerms units = kernel_terms(other, other.instructions[0]);
  EXPECT_NEAR(seconds_of(units, fit.seconds) / seconds_of(units, truth), 1, 0.02);
}

Cluster cluster_of(MeasuredMachine measured) {
  Cluster cluster = find_cluster("cpu");
  cluster.measured = std::move(measured);
  return cluster;
}

TEST(ClusterFile, ReadsBackWhatItWrote) {
  Cluster written = cluster_of(machine());
  written.measured.device = TrainDevice::kCuda;
  const std::string text = to_toml(written);
  const Cluster read = parse_cluster(text, "machine.toml");
  EXPECT_EQ(to_toml(read), text);
  EXPECT_EQ(read.measured.source, written.measured.source);
  EXPECT_EQ(read.measured.device, written.measured.device);
  EXPECT_EQ(read.measured.kernels.size(), 3U);
  EXPECT_EQ(read.measured.kernels[1].fit.seconds, written.measured.kernels[1].fit.seconds);
  EXPECT_EQ(read.device.peak(MathType::kF32), written.device.peak(MathType::kF32));
  EXPECT_EQ(read.levels.size(), written.levels.size());
}

TEST(ClusterFile, KeepsWhatWasMeasuredOfServing) {
  Cluster written = cluster_of(machine());
  MeasuredKernel kernel = kernel_of("serve_linear", 2, 1e-11);
  kernel.tokens = 48;
  term(kernel.fit.seconds, TimeTerm::kFar) = 2e-11;
  written.measured.kernels.push_back(kernel);
  written.measured.reading = {{2, {{524288, 0, 0}, {1 << 23, 1, 0.25}, {1 << 28, 1, 1}}}};
  const std::string text = to_toml(written);
  const MeasuredMachine read = parse_cluster(text, "machine.toml").measured;
  EXPECT_EQ(read.kernels.front().tokens, 0);
  EXPECT_EQ(read.kernels.back().tokens, 48);
  EXPECT_EQ(read.kernels.back().fit.seconds, kernel.fit.seconds);
  ASSERT_EQ(read.reading.size(), 1U);
  ASSERT_EQ(read.reading[0].points.size(), 3U);
  EXPECT_EQ(read.reading[0].threads, 2);
  EXPECT_EQ(read.reading[0].points[1].far, 0.25);
  // What was measured in frames of serving is no time of training.
  Program program = product_program(16, 32, 64);
  program.instructions[0].op = OpKind::kServeLinear;
  EXPECT_FALSE(is_measured(read, program, program.instructions[0]));

  const auto refusal_of = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    try {
      parse_cluster(changed, "machine.toml");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal_of("mid = [0, ", "mid = [").find("mid has 2 numbers, but bytes 3"),
            std::string::npos);
  EXPECT_NE(refusal_of("far = [0, 0.25", "far = [0, 1.25").find("from 0 to 1"), std::string::npos);
  EXPECT_NE(refusal_of("tokens = 48", "tokens = 0").find("tokens must be a whole number"),
            std::string::npos);
}

TEST(ClusterFile, KeepsProvenance) {
  Cluster written = cluster_of(machine());
  written.device.memory_bandwidth = {1.25e10, Provenance::kMeasured, "2026-11-15, a test"};
  const Cluster read = parse_cluster(to_toml(written), "machine.toml");
  EXPECT_EQ(read.device.memory_bandwidth.value, 1.25e10);
  EXPECT_EQ(read.device.memory_bandwidth.provenance, Provenance::kMeasured);
  EXPECT_EQ(read.device.memory_bandwidth.source, "2026-11-15, a test");
  EXPECT_EQ(read.device.tile_rows.provenance, Provenance::kDefault);
}

// The message of a file in which `from` was changed to `to`.
std::string refusal(const std::string& from, const std::string& to) {
  std::string text = to_toml(cluster_of(machine()));
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  try {
    parse_cluster(text, "machine.toml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ClusterFile, NamesPlaceAndFixOfMistakes) {
  EXPECT_NE(refusal("call = ", "cal = ").find("did you mean 'call'"), std::string::npos)
      << refusal("call = ", "cal = ");
  EXPECT_NE(refusal("type = \"f32\"", "type = \"f31\"").find("unknown type \"f31\""),
            std::string::npos);
  EXPECT_NE(refusal("device = \"cpu\"", "device = \"gpu\"").find("must be cpu or cuda, got 'gpu'"),
            std::string::npos);
  EXPECT_NE(refusal("cores = 2", "cores = 0").find("machine.toml:"), std::string::npos);
  EXPECT_NE(refusal("[1, 1.1, 2.2]", "[1, 1.1]").find("products has 2 numbers, but threads has 3"),
            std::string::npos);
  EXPECT_NE(refusal("[1, 1.1, 2.2]", "[1, 0, 2.2]").find("from 0.1 to 1e6"), std::string::npos);
  EXPECT_NE(refusal("[1, 2, 4]", "[1, 4, 2]").find("must grow"), std::string::npos);
  EXPECT_NE(refusal("loss = [", "lost = [").find("did you mean 'loss'"), std::string::npos);
  EXPECT_NE(refusal("call = 1e-06", "call = -1.0").find("from 0 to 1000"), std::string::npos);
  EXPECT_NE(refusal("dispatch_s = 5e-07", "dispatch_s = inf").find("dispatch_s must be a number"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera

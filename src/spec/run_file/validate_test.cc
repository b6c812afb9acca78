#include "spec/run_file/validate.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "spec/nearby.h"
#include "spec/run_file/run_file.h"

namespace tessera {
namespace {

using Change = std::function<void(RunSpec&)>;

RunSpec small_run() {
  RunSpec spec;
  spec.model.layers = 4;
  spec.model.hidden = 256;
  spec.model.ffn = 688;
  spec.model.heads = 8;
  spec.model.vocab = 256;
  return spec;
}

RunSpec resolved(const Change& change) {
  RunSpec spec = small_run();
  change(spec);
  resolve(spec);
  return spec;
}

std::string failure(const Change& change) {
  return testing::message_of([&] { resolved(change); });
}

std::string world_failure(std::string_view mesh, int64_t ranks) {
  return testing::message_of([&] { require_world(parse_mesh(mesh, {}), ranks); });
}

TEST(ResolveTest, FillsWhatFollowsFromTheRest) {
  const RunSpec spec = resolved([](RunSpec& s) {
    s.train.micro_batch = 3;
    s.parallel.dp = 2;
    s.parallel.fsdp = 2;
  });
  EXPECT_EQ(spec.model.kv_heads, 8);
  EXPECT_EQ(spec.model.head_dim, 32);
  EXPECT_EQ(spec.train.global_batch, 12);
  EXPECT_EQ(spec.parallel.zero, 3);
  EXPECT_EQ(accumulation(spec), 1);
  EXPECT_EQ(resolved([](RunSpec&) {}).parallel.zero, 0);
}

TEST(ResolveTest, RefusesABalanceOfExpertsThatAreNotThere) {
  EXPECT_EQ(failure([](RunSpec& s) { s.model.router_aux_coef = 0.75; }),
            "model.router_aux_coef = 0.75 weighs how evenly experts are used, and family = "
            "\"llama\" has none; use family = \"mixtral\", or leave it out");
}

TEST(ResolveTest, IsIdempotent) {
  RunSpec spec = resolved([](RunSpec& s) { s.parallel.fsdp = 2; });
  const std::string once = to_json(spec).dump();
  resolve(spec);
  EXPECT_EQ(to_json(spec).dump(), once);
}

TEST(ResolveTest, GradientsAreReducedEveryMicroBatchOnlyWhereThatSavesMemory) {
  const auto reduce = [](int64_t zero, int64_t global_batch, const char* asked) {
    return resolved([&](RunSpec& s) {
             s.parallel.zero = zero;
             s.parallel.dp = 2;
             s.train.global_batch = global_batch;
             s.parallel.grad_reduce = asked;
           })
        .parallel.grad_reduce;
  };
  EXPECT_EQ(reduce(0, 8, "auto"), "step");
  EXPECT_EQ(reduce(1, 8, "auto"), "step");
  EXPECT_EQ(reduce(2, 8, "auto"), "micro_batch");
  EXPECT_EQ(reduce(3, 8, "auto"), "micro_batch");
  EXPECT_EQ(reduce(2, 2, "auto"), "step");
  EXPECT_EQ(reduce(3, 8, "step"), "step");
  EXPECT_EQ(reduce(0, 8, "micro_batch"), "micro_batch");
}

TEST(ResolveTest, AllowsSettingsWithoutEffect) {
  EXPECT_EQ(failure([](RunSpec& s) { s.parallel.sequence_parallel = true; }), "no error");
  EXPECT_EQ(failure([](RunSpec& s) { s.parallel.zero = 2; }), "no error");
  EXPECT_EQ(failure([](RunSpec& s) { s.optimizer.warmup = 1000; }), "no error");
  EXPECT_EQ(failure([](RunSpec& s) { s.optimizer.clip = 0; }), "no error");
}

TEST(ResolveTest, RefusesWhatThisVersionCannotDo) {
  EXPECT_EQ(failure([](RunSpec& s) { s.model.family = "bert"; }),
            "model.family must be one of llama, mistral, qwen2, qwen3, gpt2, mixtral, got string "
            "\"bert\"");
}

TEST(ResolveTest, GradientsAreWideUnlessBf16OnesAreAskedFor) {
  const auto run = [](DType dtype, const char* gradients) {
    return [=](RunSpec& s) {
      s.train.dtype = dtype;
      s.train.gradients = gradients;
    };
  };
  EXPECT_EQ(resolved(run(DType::kF64, "f32")).train.gradient_type(), DType::kF64);
  EXPECT_EQ(resolved(run(DType::kF16, "f32")).train.gradient_type(), DType::kF32);
  EXPECT_EQ(resolved(run(DType::kBF16, "f32")).train.gradient_type(), DType::kF32);
  EXPECT_EQ(resolved(run(DType::kBF16, "bf16")).train.gradient_type(), DType::kBF16);
  EXPECT_EQ(
      failure(run(DType::kF16, "bf16")),
      "train.gradients = \"bf16\" is for dtype = \"bf16\"; leave it out with dtype = \"f16\"");
}

TEST(ResolveTest, RefusesUnevenHeads) {
  EXPECT_EQ(failure([](RunSpec& s) { s.model.kv_heads = 3; }),
            "model.heads = 8 is not a multiple of kv_heads = 3; use kv_heads = 2 or 4");
  EXPECT_EQ(failure([](RunSpec& s) { s.model.kv_heads = 16; }),
            "model.heads = 8 is not a multiple of kv_heads = 16; use kv_heads = 8");
  EXPECT_EQ(failure([](RunSpec& s) { s.parallel.tp = 3; }),
            "parallel.tp = 3 does not divide heads = 8; use tp = 2 or 4");
  EXPECT_EQ(failure([](RunSpec& s) { s.parallel.tp = 16; }),
            "parallel.tp = 16 does not divide heads = 8; use tp = 8");
  EXPECT_EQ(failure([](RunSpec& s) { s.model.heads = 7; }),
            "model.hidden = 256 is not a multiple of heads = 7; use hidden = 252 or 259, or give "
            "head_dim");
  EXPECT_EQ(failure([](RunSpec& s) { s.model.head_dim = 5; }),
            "model.head_dim = 5 is odd, but rotary embeddings turn pairs; use head_dim = 4 or 6");
  EXPECT_EQ(failure([](RunSpec& s) { s.model.head_dim = 1; }),
            "model.head_dim = 1 is odd, but rotary embeddings turn pairs; use head_dim = 2");
}

TEST(ResolveTest, RefusesUnevenBatches) {
  EXPECT_EQ(failure([](RunSpec& s) {
              s.train.global_batch = 10;
              s.train.micro_batch = 2;
              s.parallel.dp = 2;
            }),
            "train.global_batch = 10 is not a multiple of micro_batch * dp * fsdp = 2 * 2 * 1 = 4; "
            "use global_batch = 8 or 12");
  EXPECT_EQ(failure([](RunSpec& s) {
              s.train.global_batch = 1;
              s.train.micro_batch = 2;
            }),
            "train.global_batch = 1 is not a multiple of micro_batch * dp * fsdp = 2 * 1 * 1 = 2; "
            "use global_batch = 2");
  EXPECT_EQ(
      failure([](RunSpec& s) {
        s.train.seq_len = 255;
        s.train.micro_batch = 2;
        s.parallel.tp = 4;
        s.parallel.sequence_parallel = true;
      }),
      "sequence_parallel splits micro_batch * seq_len / cp = 2 * 255 / 1 = 510 tokens over tp = 4, "
      "which does not divide them; use seq_len = 254 or 256, or sequence_parallel = false");
}

TEST(ResolveTest, RefusesSequencesAndHeadsThatCpDoesNotDivide) {
  EXPECT_EQ(failure([](RunSpec& s) {
              s.parallel.cp = 3;
              s.train.seq_len = 256;
            }),
            "parallel.cp = 3 cuts sequences into 6 chunks, which do not divide seq_len = 256; use "
            "seq_len = 252 or 258");
  EXPECT_EQ(failure([](RunSpec& s) {
              s.parallel.cp = 3;
              s.parallel.tp = 2;
              s.parallel.cp_kind = "ulysses";
              s.train.seq_len = 252;
            }),
            "cp_kind = \"ulysses\" splits the 4 heads of a tp rank over cp = 3, which does not "
            "divide them; use cp = 2 or 4, or cp_kind = \"ring\"");
  EXPECT_EQ(failure([](RunSpec& s) {
              s.parallel.cp = 2;
              s.parallel.tp = 4;
              s.parallel.sequence_parallel = true;
              s.train.seq_len = 252;
            }),
            "sequence_parallel splits micro_batch * seq_len / cp = 1 * 252 / 2 = 126 tokens over "
            "tp = 4, which does not divide them; use seq_len = 248 or 256, or sequence_parallel = "
            "false");
  EXPECT_EQ(resolved([](RunSpec& s) { s.parallel.cp = 2; }).parallel.cp_kind, "ring");
}

TEST(ResolveTest, RefusesNumbersOutOfRange) {
  const auto message = [](const char* key, const char* range, const char* value) {
    return std::string(key) + " must be " + range + ", got " + value;
  };
  EXPECT_EQ(failure([](RunSpec& s) { s.train.seq_len = 0; }),
            message("train.seq_len", "an integer from 1 to 1000000000000", "integer 0"));
  EXPECT_EQ(failure([](RunSpec& s) { s.train.micro_batch = -1; }),
            message("train.micro_batch", "an integer from 1 to 1000000000000", "integer -1"));
  EXPECT_EQ(failure([](RunSpec& s) { s.train.steps = 0; }),
            message("train.steps", "an integer from 1 to 1000000000000", "integer 0"));
  EXPECT_EQ(failure([](RunSpec& s) { s.parallel.zero = 4; }),
            message("parallel.zero", "an integer from 0 to 3", "integer 4"));
  EXPECT_EQ(failure([](RunSpec& s) { s.optimizer.clip = -1; }),
            message("optimizer.clip", "a number from 0 to 1000000000000", "number -1"));
  EXPECT_EQ(failure([](RunSpec& s) { s.optimizer.beta2 = 1; }),
            message("optimizer.betas", "a number at least 0 and below 1", "number 1"));
  EXPECT_EQ(failure([](RunSpec& s) { s.optimizer.lr = 0; }),
            message("optimizer.lr", "a number above 0 and at most 1000000000000", "number 0"));
  EXPECT_NE(failure([](RunSpec& s) { s.optimizer.lr = std::numeric_limits<double>::infinity(); }),
            "no error");
  EXPECT_NE(failure([](RunSpec& s) { s.optimizer.lr = std::numeric_limits<double>::quiet_NaN(); }),
            "no error");
  EXPECT_NE(failure([](RunSpec& s) { s.model.layers = 0; }), "no error");
  EXPECT_EQ(failure([](RunSpec& s) {
              s.model.rope.llama3_scaling = true;
              s.model.rope.high_freq_factor = 1;
            }),
            "model.rope_scaling: high_freq_factor = 1 must be above low_freq_factor = 1");
}

TEST(ResolveTest, RefusesSizesThatOverflow) {
  EXPECT_EQ(failure([](RunSpec& s) {
              s.model.hidden = 1'000'000'000;
              s.model.ffn = 1'000'000'000;
            }),
            "the number of parameters is about 2.8e+19, too large to count; use smaller sizes");
  EXPECT_NE(failure([](RunSpec& s) {
              s.train.micro_batch = 1'000'000'000'000;
              s.train.seq_len = 1'000'000'000'000;
            }),
            "no error");
  EXPECT_NE(failure([](RunSpec& s) {
              s.train.global_batch = 1'000'000'000'000;
              s.train.seq_len = 1'000'000'000;
            }),
            "no error");
}

TEST(RequireWorldTest, OffersTheNearestMeshes) {
  EXPECT_EQ(world_failure("dp=2,tp=2", 4), "no error");
  EXPECT_EQ(world_failure("dp=2,tp=2", 6),
            "the mesh dp=2 x tp=2 needs 4 ranks but --ranks is 6; meshes with 6 ranks near it: "
            "dp=3,tp=2; dp=2,tp=3; dp=6");
  EXPECT_EQ(world_failure("dp=1", 4),
            "the mesh dp=1 needs 1 rank but --ranks is 4; meshes with 4 ranks near it: dp=4; "
            "fsdp=4; tp=4");
  EXPECT_EQ(world_failure("fsdp=4,tp=2", 1),
            "the mesh fsdp=4 x tp=2 needs 8 ranks but --ranks is 1; meshes with 1 rank near it: "
            "dp=1");
  EXPECT_EQ(world_failure("dp=2", 10007),
            "the mesh dp=2 needs 2 ranks but --ranks is 10007; no mesh with axes up to 4096 has "
            "10007 ranks");
  EXPECT_EQ(world_failure("dp=2", 0), "--ranks is 0; use 1 to 1048576");
  EXPECT_EQ(world_failure("dp=2", int64_t{1} << 40), "--ranks is 1099511627776; use 1 to 1048576");
}

TEST(RequireWorldTest, EveryOfferIsAMeshOfThatManyRanks) {
  for (const int64_t ranks : {2, 7, 12, 60, 720720}) {
    const std::string offers = nearby_meshes(parse_mesh("dp=2,fsdp=2,tp=2", {}), ranks);
    for (size_t at = 0; at != std::string::npos;) {
      const size_t end = offers.find("; ", at);
      const std::string mesh = offers.substr(at, end == std::string::npos ? end : end - at);
      EXPECT_EQ(parse_mesh(mesh, {}).world(), ranks) << offers;
      at = end == std::string::npos ? end : end + 2;
    }
  }
}

}  // namespace
}  // namespace tessera

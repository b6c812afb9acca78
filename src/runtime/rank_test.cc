// Several Programs on one rank: what training changes, the others see, and nothing else is shared.
#include "runtime/rank.h"

#include <gtest/gtest.h>

#include <cstring>

#include "comm/local/local_world.h"
#include "compile/testing/test_spec.h"
#include "runtime/executor.h"
#include "runtime/rank_threads.h"

namespace tessera {
namespace {

RunSpec spec_of(const std::string& mesh) {
  RunSpec spec = testing::small_spec(mesh);
  spec.train.global_batch = 4;
  return testing::resolved(spec);
}

void fill_inputs(Executor& executor) {
  const Program& program = executor.program();
  const auto fill = [&](BufferId id, int64_t stride) {
    if (id == kNoBuffer) return;
    int32_t* const input = executor.input(id);
    const int64_t count = numel(program.buffer(id).shape);
    for (int64_t i = 0; i < count; ++i) input[i] = static_cast<int32_t>((stride * i + 1) % 40);
  };
  fill(program.tokens, 7);
  fill(program.labels, 3);
}

// The same on every rank that holds the same: by the place in the bucket.
void fill_weights(Executor& executor) {
  for (const BucketBuffers& bucket : executor.program().buckets) {
    const BufferId id = bucket.full != kNoBuffer ? bucket.full : bucket.weights;
    if (id == kNoBuffer) continue;
    executor.edit(id, [](const Tensor& t) {
      for (int64_t i = 0; i < t.numel(); ++i) {
        t.as<float>()[i] = 0.02F * static_cast<float>((5 * i + 3) % 17 - 8);
      }
    });
  }
}

std::vector<float> numbers(const Executor& executor, BufferId id) {
  const HostView view = executor.view(id);
  const auto* const first = view.tensor.as<float>();
  return {first, first + view.tensor.numel()};
}

std::vector<float> logits(Executor& executor) {
  fill_inputs(executor);
  executor.run({});
  return numbers(executor, executor.program().logits);
}

void train(Executor& executor) {
  fill_inputs(executor);
  executor.run({.lr = 1e-2, .step = 1});
}

// What training and looking are compiled to, for every rank of a mesh.
struct TwoPrograms {
  explicit TwoPrograms(const RunSpec& spec)
      : training(build_step(spec, StepKind::kTraining)),
        forward(build_step(spec, StepKind::kForward)),
        training_programs(compile_ranks(training)),
        forward_programs(compile_ranks(forward)) {}

  [[nodiscard]] Executor trainer(Rank& rank) const {
    return {rank, training, training_programs[at(rank)], {}};
  }
  [[nodiscard]] Executor looker(Rank& rank) const {
    return {rank, forward, forward_programs[at(rank)], {}};
  }
  static size_t at(Rank& rank) { return static_cast<size_t>(rank.world().rank()); }
  [[nodiscard]] int size() const { return static_cast<int>(training_programs.size()); }

  StepGraph training, forward;
  std::vector<Program> training_programs, forward_programs;
};

class RankOnMesh : public ::testing::TestWithParam<const char*> {};

TEST_P(RankOnMesh, ForwardSeesTheWeightsThatTrainingUpdated) {
  const TwoPrograms two(spec_of(GetParam()));
  LocalWorld local({.size = two.size()});
  run_rank_threads(local, [&](int r) {
    Rank rank(local.endpoint(r), {});
    Executor trainer = two.trainer(rank);
    Executor looker = two.looker(rank);
    fill_weights(trainer);
    const std::vector<float> before = logits(looker);
    EXPECT_EQ(logits(looker), before) << "looking changes nothing";
    train(trainer);
    EXPECT_NE(logits(looker), before);
  });
}

// Negative control: a Program in memory of its own sees nothing of it, until it is told.
TEST_P(RankOnMesh, OnAnotherMemoryForwardSeesNothing) {
  const TwoPrograms two(spec_of(GetParam()));
  LocalWorld local({.size = two.size()});
  LocalWorld elsewhere({.size = two.size()});
  run_rank_threads(local, [&](int r) {
    Rank rank(local.endpoint(r), {});
    Rank other(elsewhere.endpoint(r), {});
    Executor trainer = two.trainer(rank);
    Executor shares = two.looker(rank);
    Executor alone = two.looker(other);
    fill_weights(trainer);
    fill_weights(alone);
    const std::vector<float> before = logits(alone);
    EXPECT_EQ(logits(shares), before);
    train(trainer);
    EXPECT_EQ(logits(alone), before);
    for (size_t b = 0; b < trainer.program().buckets.size(); ++b) {
      const BucketBuffers& from = trainer.program().buckets[b];
      const BucketBuffers& to = alone.program().buckets[b];
      const bool whole = from.full != kNoBuffer;
      const HostView weights = trainer.view(whole ? from.full : from.weights);
      alone.edit(whole ? to.full : to.weights, [&](const Tensor& t) {
        std::memcpy(t.data, weights.tensor.data, static_cast<size_t>(t.bytes()));
      });
    }
    EXPECT_EQ(logits(alone), logits(shares));
  });
}

TEST_P(RankOnMesh, TrainsAsIfItWereAlone) {
  const TwoPrograms two(spec_of(GetParam()));
  const auto weights_after = [&](bool with_company) {
    LocalWorld local({.size = two.size()});
    std::vector<std::vector<float>> weights(static_cast<size_t>(two.size()));
    run_rank_threads(local, [&](int r) {
      Rank rank(local.endpoint(r), {});
      Executor trainer = two.trainer(rank);
      std::optional<Executor> looker;
      if (with_company)
        looker.emplace(rank, two.forward, two.forward_programs[two.at(rank)], ExecutorOptions{});
      fill_weights(trainer);
      for (int step = 1; step <= 3; ++step) {
        fill_inputs(trainer);
        trainer.run({.lr = 1e-2, .step = step});
        if (looker) logits(*looker);
      }
      for (const BucketBuffers& bucket : trainer.program().buckets) {
        const std::vector<float> more = numbers(trainer, bucket.weights);
        auto& mine = weights[static_cast<size_t>(r)];
        mine.insert(mine.end(), more.begin(), more.end());
      }
    });
    return weights;
  };
  EXPECT_EQ(weights_after(true), weights_after(false));
}

INSTANTIATE_TEST_SUITE_P(Meshes, RankOnMesh,
                         ::testing::Values("dp=1", "tp=2", "dp=2,zero=1", "fsdp=2"));

TEST(Rank, WeightsOutliveThePrograms) {
  const TwoPrograms two(spec_of("dp=1"));
  LocalWorld local({.size = 1});
  Rank rank(local.endpoint(0), {});
  std::vector<float> first;
  {
    Executor looker = two.looker(rank);
    fill_weights(looker);
    first = logits(looker);
  }
  Executor looker = two.looker(rank);
  EXPECT_EQ(logits(looker), first);
}

// Each group is joined once, and what both send is counted.
TEST(Rank, CountsWhatAllItsProgramsSend) {
  const TwoPrograms two(spec_of("tp=2"));
  LocalWorld local({.size = two.size()});
  std::vector<std::vector<Traffic>> measured(static_cast<size_t>(two.size()));
  std::vector<std::unique_ptr<Rank>> ranks(static_cast<size_t>(two.size()));
  run_rank_threads(local, [&](int r) {
    ranks[static_cast<size_t>(r)] = std::make_unique<Rank>(local.endpoint(r), RankOptions{});
    Rank& rank = *ranks[static_cast<size_t>(r)];
    Executor trainer = two.trainer(rank);
    Executor looker = two.looker(rank);
    train(trainer);
    logits(looker);
  });
  for (const auto& rank : ranks) {
    int64_t planned = 0;
    for (const auto* programs : {&two.training_programs, &two.forward_programs}) {
      for (const Traffic& t : traffic_of((*programs)[two.at(*rank)])) planned += t.bytes_sent;
    }
    int64_t sent = 0;
    for (const Traffic& t : rank->channels().meter().traffic()) sent += t.bytes_sent;
    EXPECT_GT(planned, 0);
    EXPECT_EQ(sent, planned);
    rank->channels().meter().reset();
    EXPECT_TRUE(rank->channels().meter().traffic().empty());
  }
}

// ---- what does not fit ----

std::string refusal(const RunSpec& first, const RunSpec& second) {
  LocalWorld local({.size = 1});
  Rank rank(local.endpoint(0), {});
  const TwoPrograms one(first);
  const TwoPrograms other(second);
  const Executor trainer = one.trainer(rank);
  try {
    const Executor looker = other.looker(rank);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_in(const std::string& part, const std::string& message) {
  EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
}

TEST(Rank, TakesASecondProgramForOtherInputs) {
  RunSpec longer = testing::small_spec("dp=1");
  longer.train.global_batch = 2;
  longer.train.seq_len = 16;
  EXPECT_EQ(refusal(spec_of("dp=1"), testing::resolved(longer)), "");
}

TEST(Rank, RefusesASecondProgramThatKeepsOtherWeights) {
  RunSpec wide = testing::small_spec("dp=1");
  wide.train.global_batch = 4;
  wide.model.ffn = 32;
  const std::string message = refusal(spec_of("dp=1"), testing::resolved(wide));
  expect_in(
      "rank 0: a second Program cannot share the parameters of the first: it keeps "
      "'layers.0.matrices' (",
      message);
  expect_in(" where the first keeps 'layers.0.matrices' (", message);
  expect_in("compile both from the same model, mesh, dtype and ZeRO stage", message);
}

TEST(Rank, RefusesASecondProgramOfAnotherType) {
  RunSpec narrow = testing::small_spec("dp=1");
  narrow.train.global_batch = 4;
  narrow.train.dtype = DType::kBF16;
  expect_in("cannot share the parameters", refusal(spec_of("dp=1"), testing::resolved(narrow)));
}

TEST(Rank, RefusesASecondProgramOfMoreLayers) {
  RunSpec deep = testing::small_spec("dp=1");
  deep.train.global_batch = 4;
  deep.model.layers = 3;
  expect_in("cannot share the parameters", refusal(spec_of("dp=1"), testing::resolved(deep)));
}

TEST(Rank, RefusesAProgramForAnotherTeam) {
  RunSpec spec = testing::small_spec("dp=1");
  spec.train.global_batch = 4;
  spec.train.threads = 2;
  expect_in("the Program is compiled for 2 threads, but the rank has 1",
            refusal(spec_of("dp=1"), testing::resolved(spec)));
}

}  // namespace
}  // namespace tessera

// Where a run stands is (seed, step): what a step reads does not depend on the steps before it, on
// the mesh, or on anything that a process remembers. Checkpoints build on it.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "base/testing/test_folder.h"
#include "checkpoint/safetensors.h"
#include "compile/model/context.h"
#include "spec/run_file/run_file.h"
#include "support/command.h"
#include "support/tiny.h"
#include "support/token_sets.h"
#include "train/machine_defaults.h"
#include "train/samples/run_sets.h"
#include "train/samples/step_samples.h"
#include "train/session/step_params.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

using testing::CommandResult;
using testing::TestFolder;

constexpr int64_t kStep = 4;
constexpr const char* kMeshes[] = {"dp=1", "dp=2",      "fsdp=2,zero=3", "tp=2",
                                   "cp=2", "dp=2,cp=2", "pp=2",          "pp=2,dp=2,tp=2"};

// What one step gave to the ranks.
struct SeenStep {
  std::map<int64_t, std::vector<int32_t>> samples;  // by number: tokens, then labels
  std::vector<std::vector<int32_t>> inputs;         // of every rank: its buffers, end to end
  bool operator==(const SeenStep&) const = default;
};

std::vector<int32_t> inputs_of(Executor& executor, const RunSpec& spec) {
  const Program& program = executor.program();
  const int64_t sequences = program.micro_batches * spec.train.micro_batch;
  const int64_t held = held_rows(spec, program.mesh, program.rank).length();
  const int64_t attending = attending_rows(spec, program.mesh, program.rank).length();
  std::vector<int32_t> all;
  const auto add = [&](BufferId id, int64_t length) {
    if (id == kNoBuffer) return;
    const int32_t* begin = executor.input(id);
    all.insert(all.end(), begin, begin + sequences * length);
  };
  add(program.tokens, held);
  add(program.labels, held);
  add(program.document_starts, attending);
  return all;
}

// Step `last` of a run that begins with step `first`, everything read anew.
SeenStep run_to(const RunSpec& given, int64_t first, int64_t last) {
  const RunSpec spec = with_end_token(given);
  const Samples samples = training_samples(spec);
  World world(build_step(spec, StepKind::kTraining));
  const TensorSource weights = initial_weights(spec.model, spec.train.seed);
  world.run([&](int, Executor& executor) { load_weights(executor, world.step(), weights); });
  SeenStep seen;
  seen.inputs.resize(static_cast<size_t>(world.size()));
  std::mutex mutex;
  for (int64_t step = first; step <= last; ++step) {
    const SampleSource watched = [&](int64_t sample, std::span<int32_t> tokens,
                                     std::span<int32_t> labels) {
      samples.fill(sample, tokens, labels);
      if (step < last) return;
      std::vector<int32_t> both(tokens.begin(), tokens.end());
      both.insert(both.end(), labels.begin(), labels.end());
      const std::scoped_lock lock(mutex);
      seen.samples[sample] = std::move(both);
    };
    world.run([&](int rank, Executor& executor) {
      fill_inputs(executor, spec, step, watched, samples.starts);
      if (step == last) seen.inputs[static_cast<size_t>(rank)] = inputs_of(executor, spec);
      if (step < last) executor.run(step_params(spec, step));
    });
  }
  return seen;
}

class ResumePointTest : public ::testing::TestWithParam<const char*> {
 protected:
  RunSpec spec_of(const std::string& mesh, uint64_t seed = 5) {
    RunSpec spec = testing::tiny_spec();
    spec.model.vocab = 512;
    spec.parallel = parse_mesh(mesh, {});
    spec.train.seq_len = 24;
    spec.train.global_batch = 4;
    spec.train.seed = seed;
    const std::string kind = GetParam();
    if (kind == "bytes") spec.data.synth_bytes = 700;  // an epoch ends before step 8
    if (kind == "set") spec.data.train = set("a", 1);
    if (kind == "mixture") spec.data.mix = {{set("a", 1), 0.7}, {set("b", 2), 0.3}};
    if (kind == "documents") {
      spec.data.mix = {{set("a", 1), 3}, {set("b", 2), 1}};
      spec.data.document_mask = true;
    }
    if (kind.ends_with("chats")) {
      if (!std::filesystem::exists(folder_.path("chat"))) {
        testing::make_chat_folder(folder_.path("chat"));
      }
      spec.train.seq_len = 96;
      spec.data.chats = folder_.path("chat/chats.jsonl");
      spec.data.tokenizer = folder_.path("chat");
      spec.data.document_mask = kind == "packed chats";
    }
    resolve(spec);
    if (spec.train.threads == 0) spec.train.threads = 1;
    return spec;
  }

 private:
  std::string set(const std::string& name, uint64_t seed) {
    const std::string place = folder_.path(name);
    if (!std::filesystem::exists(place)) testing::make_token_set(place, seed, 60, 512);
    return place;
  }

  TestFolder folder_;
};

TEST_P(ResumePointTest, SeedAndStepAloneDecideWhatIsRead) {
  const SeenStep one = run_to(spec_of("dp=1"), kStep, kStep);
  EXPECT_EQ(one.samples.size(), 4U);
  EXPECT_EQ(one.samples.begin()->first, (kStep - 1) * 4);
  EXPECT_EQ(one.samples.rbegin()->first, kStep * 4 - 1);
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    const RunSpec spec = spec_of(mesh);
    const SeenStep straight = run_to(spec, kStep, kStep);
    EXPECT_TRUE(straight == run_to(spec, 1, kStep)) << "the steps before have a say";
    EXPECT_TRUE(straight.samples == one.samples) << "the mesh has a say";
  }
  // The comparison sees another step, and another seed.
  EXPECT_FALSE(run_to(spec_of("dp=1"), kStep + 1, kStep + 1).inputs == one.inputs);
  EXPECT_FALSE(run_to(spec_of("dp=1", 6), kStep, kStep).inputs == one.inputs);
}

TEST_P(ResumePointTest, CanBeAskedWithoutARun) {
  const std::vector<StepSamples> all = look_at_steps(spec_of("dp=1"), {1, 6});
  ASSERT_EQ(all.size(), 6U);
  const StepSamples straight = look_at_steps(spec_of("pp=2,dp=2,tp=2"), {kStep, kStep}).at(0);
  EXPECT_EQ(straight.crc32, all[kStep - 1].crc32);
  EXPECT_EQ(straight.first_sample, (kStep - 1) * 4);
  EXPECT_GT(straight.labels, 0);
  EXPECT_NE(straight.crc32, all[kStep].crc32);
}

INSTANTIATE_TEST_SUITE_P(Data, ResumePointTest,
                         ::testing::Values("bytes", "set", "mixture", "documents", "chats",
                                           "packed chats"),
                         [](const auto& kind) {
                           std::string name = kind.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

// As a user asks, and as other programs read it.
TEST(DataSamplesTest, ShowsAndWritesTheBatchesOfSteps) {
  const TestFolder folder;
  folder.write("run.toml",
               "[model]\nlayers=1\nhidden=16\nffn=32\nheads=2\nvocab=256\n[train]\nseq_len=8\n"
               "global_batch=4\n[data.synth]\nbytes=3000\n");
  const std::string command = "data samples run.toml --steps 3..4 ";
  const CommandResult one = testing::tessera(folder, command + "--json --out b.safetensors");
  ASSERT_EQ(one.code, 0) << one.err;
  const CommandResult other = testing::tessera(folder, command + "--json --mesh dp=2,tp=2");
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(one.json(), other.json());
  EXPECT_EQ(one.json().at("steps").at(1).at("first_sample"), 12);
  const SafetensorsFile file = SafetensorsFile::open(folder.path("b.safetensors"));
  EXPECT_EQ(file.at("tokens").shape, (std::vector<int64_t>{8, 8}));
  std::vector<int64_t> tokens(64), labels(64);
  file.read("tokens", std::span(tokens));
  file.read("labels", std::span(labels));
  for (size_t i = 0; i + 1 < 64; ++i) {
    if (i % 8 != 7) {
      EXPECT_EQ(labels[i], tokens[i + 1]);
    }
  }
  EXPECT_NE(testing::tessera(folder, command).out.find("crc-32"), std::string::npos);
  EXPECT_EQ(testing::tessera(folder, "data samples run.toml --steps 0..2").code, 2);
}

}  // namespace
}  // namespace tessera

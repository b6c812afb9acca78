// Runs that are killed in the middle and go on: one mesh for every parallelism and pipeline
// schedule, in every 32- and 16-bit type. A seed draws the rank, the step and the place within it.
#pragma once

#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/share.h"
#include "support/command.h"

namespace tessera::testing {

struct ResumeMesh {
  const char* what;
  int ranks;
  const char* flags;
};
inline constexpr ResumeMesh kResumeMeshes[] = {
    {"dp", 2, "--mesh dp=2,zero=0"},
    {"zero 1", 2, "--mesh dp=2,zero=1"},
    {"zero 2", 2, "--mesh dp=2,zero=2"},
    {"zero 3", 2, "--mesh dp=2,zero=3"},
    {"fsdp", 3, "--mesh fsdp=3,zero=3 --set train.global_batch=6"},
    {"hsdp", 4, "--mesh dp=2,fsdp=2,zero=3"},
    {"tp", 2, "--mesh tp=2"},
    {"tp with sp", 2, "--mesh tp=2 --set parallel.sequence_parallel=true"},
    {"cp ring", 2, "--mesh cp=2 --set parallel.cp_kind=ring"},
    {"cp all-gather", 2, "--mesh cp=2 --set parallel.cp_kind=allgather"},
    {"cp ulysses", 2, "--mesh cp=2 --set parallel.cp_kind=ulysses"},
    {"gpipe", 2, "--mesh pp=2 --set parallel.schedule=gpipe"},
    {"1f1b", 2, "--mesh pp=2 --set parallel.schedule=1f1b --set model.tied=true"},
    {"interleaved", 2,
     "--mesh pp=2 --set parallel.schedule=interleaved --set parallel.virtual_stages=2"},
    {"zero bubble", 2, "--mesh pp=2 --set parallel.schedule=zb-h1"},
    {"zero bubble v", 2, "--mesh pp=2 --set parallel.schedule=zb-v"},
    {"dualpipe-v", 2, "--mesh pp=2 --set parallel.schedule=dualpipe-v"},
    {"pipedream", 2, "--mesh pp=2 --set parallel.schedule=pipedream --set optimizer.clip=0"},
    {"pipedream-2bw", 2,
     "--mesh pp=2 --set parallel.schedule=pipedream-2bw --set optimizer.clip=0"},
    {"ep beside fsdp", 2,
     "--mesh fsdp=2,ep=2,zero=3 --set model.family=mixtral --set model.experts=4"},
    {"ep beside tp", 2, "--mesh tp=2,ep=2 --set model.family=mixtral --set model.experts=4"},
    {"pp, dp and tp", 8, "--mesh pp=2,dp=2,tp=2,zero=1"},
};

inline constexpr int kResumeSteps = 7;

// The loss scale moves: it is doubled every second step, and halved by the first overflow.
inline std::string resume_run_file() {
  return fmt::format(
      "[model]\nlayers=4\nhidden=16\nffn=24\nheads=4\nkv_heads=4\nvocab=256\ndropout=0.1\n"
      "init_std=0.1\n[train]\nseq_len=16\nglobal_batch=8\nsteps={}\nthreads=1\n"
      "loss_scale_interval=2\nloss_scale_hysteresis=1\n[data.synth]\nbytes=3000\n"
      "[optimizer]\nlr=1e-2\n[checkpoint]\nevery=2\n",
      kResumeSteps);
}

struct ResumeCase {
  std::string what;  // mesh and type
  int ranks = 1;
  std::string flags = {};  // of tessera train
  std::string fault = {};  // TESSERA_FAULT
  int step = 0;            // that is cut off
  bool async = false;
};

// TESSERA_RESUME_SEED draws the kills of a run that failed once more.
inline uint64_t resume_seed() {
  const char* text = std::getenv("TESSERA_RESUME_SEED");
  return text == nullptr ? std::random_device()() : std::strtoull(text, nullptr, 10);
}

// What a commit tries of all meshes and types; `turn` tells launchers apart, which try others.
inline std::vector<ResumeCase> resume_cases(uint64_t seed, int64_t turn) {
  constexpr const char* kTypes[] = {"f32", "bf16", "f16"};
  constexpr const char* kPoints[] = {"step.begin", "step.forward", "step.backward", "step.update",
                                     "step.end"};
  constexpr int64_t kShares = 23;
  std::mt19937 draws(static_cast<uint32_t>(seed));
  const auto below = [&](int n) { return static_cast<int>(draws() % static_cast<unsigned>(n)); };
  std::vector<ResumeCase> cases;
  int64_t number = 0;
  for (const ResumeMesh& mesh : kResumeMeshes) {
    for (const char* type : kTypes) {
      const bool updates_early = std::string_view(mesh.what).starts_with("pipedream");
      if (updates_early && std::string_view(type) == "f16")
        continue;  // refused: overflows are late
      ResumeCase one{.what = fmt::format("{} in {}", mesh.what, type), .ranks = mesh.ranks};
      one.step = 1 + below(kResumeSteps);
      one.async = below(2) == 1;
      one.flags = fmt::format("{} --set train.dtype={} --set checkpoint.async={}", mesh.flags, type,
                              one.async);
      one.fault = fmt::format("{}:rank={},step={},at=1,act=kill", kPoints[below(5)],
                              below(mesh.ranks), one.step);
      const bool mine = number++ % kShares == (rotation() + 7 * turn) % kShares;
      if (mine || tries_all()) cases.push_back(std::move(one));
    }
  }
  return cases;
}

// Loss curve, samples and weights of `dir` are those of `straight`, both of which `folder` has.
inline void expect_same_training(const TestFolder& folder, const std::string& dir,
                                 const std::string& straight) {
  const std::string weights = read_file(folder.path(straight + "/model.safetensors"));
  EXPECT_FALSE(weights.empty());
  EXPECT_TRUE(read_file(folder.path(dir + "/model.safetensors")) == weights) << "other weights";
  const std::vector<nlohmann::json> mine = read_metrics(folder.path(dir + "/metrics.jsonl"));
  const std::vector<nlohmann::json> theirs = read_metrics(folder.path(straight + "/metrics.jsonl"));
  ASSERT_EQ(mine.size(), theirs.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    for (const char* key : {"step", "loss", "lr", "grad_norm", "tokens", "samples_hash",
                            "loss_scale", "skipped_steps"}) {
      EXPECT_EQ(mine[i].value(key, nlohmann::json()), theirs[i].value(key, nlohmann::json()))
          << key << " of line " << i;
    }
    EXPECT_TRUE(mine[i].contains("samples_hash"));
  }
  if (mine.back().contains("loss_scale")) {
    EXPECT_NE(mine.back().at("loss_scale"), mine.front().at("loss_scale")) << "it never moved";
  }
}

// Where a checkpoint was sure to be there it was used.
inline void expect_resumed(const TestFolder& folder, const std::string& dir,
                           const ResumeCase& one) {
  const std::string path = folder.path(dir + "/events.jsonl");
  int64_t from = 0;
  for (const nlohmann::json& event : read_metrics(path)) {
    if (event.at("event") == "resume") from = event.at("step").get<int64_t>();
  }
  EXPECT_LE(from, one.step);
  if (!one.async) {
    EXPECT_EQ(from, (one.step - 1) / 2 * 2);
  }
}

}  // namespace tessera::testing

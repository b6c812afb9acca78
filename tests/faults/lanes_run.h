// A run with lanes that something happens to, and the run with all its replicas that it must equal.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "faults/fault_run.h"

namespace tessera::testing {

inline constexpr int kLanesSteps = 16;

// `mesh`: of the run with all its replicas, lines of [parallel].
inline std::string lanes_run_file(const std::string& mesh, const std::string& train) {
  return fmt::format(
      "[model]\nlayers=2\nhidden=16\nffn=32\nheads=2\nvocab=256\ndropout=0.1\n[parallel]\n{}\n"
      "[train]\nseq_len=8\nlanes=4\nglobal_batch=8\nsteps={}\nthreads=1\n{}\n[data.synth]\n"
      "bytes=3000\n[optimizer]\nlr=1e-2\nclip=0.2\n[checkpoint]\nevery=3\nkeep=2\nasync=false\n",
      mesh, kLanesSteps, train);
}

class LanesRunTest : public FaultTest {
 protected:
  void use(const std::string& mesh, const std::string& train = "dtype=\"f32\"") {
    folder_.write("run.toml", lanes_run_file(mesh, train));
    succeed("train run.toml -q --threads --set logging.run_dir=fixed");
  }
  // Weights, losses and norms of every step.
  void expect_fixed_run(const std::string& dir = "out") {
    EXPECT_TRUE(read_file(folder_.path(dir + "/model.safetensors")) ==
                read_file(folder_.path("fixed/model.safetensors")))
        << "other weights";
    const std::vector<nlohmann::json> mine = read_metrics(folder_.path(dir + "/metrics.jsonl"));
    const std::vector<nlohmann::json> fixed = read_metrics(folder_.path("fixed/metrics.jsonl"));
    ASSERT_EQ(mine.size(), static_cast<size_t>(kLanesSteps));
    ASSERT_EQ(fixed.size(), static_cast<size_t>(kLanesSteps));
    EXPECT_EQ(mine.back().at("samples_hash"), hash_of_samples(8 * kLanesSteps));
    for (size_t i = 0; i < mine.size(); ++i) {
      for (const char* key : {"step", "loss", "lr", "grad_norm", "tokens", "samples_hash"}) {
        EXPECT_EQ(mine[i].at(key), fixed[i].at(key)) << key << " of line " << i;
      }
    }
  }
  void expect_sizes(const std::vector<std::pair<std::string, int>>& changes) {
    std::vector<std::pair<std::string, int>> found;
    for (const nlohmann::json& event : read_metrics(folder_.path("out/events.jsonl"))) {
      if (event.at("event") != "shrink" && event.at("event") != "grow") continue;
      found.emplace_back(event.at("event"), event.at("ranks"));
      EXPECT_FALSE(event.at("reason").get<std::string>().empty());
    }
    EXPECT_EQ(found, changes);
  }
};

}  // namespace tessera::testing

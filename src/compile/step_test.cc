// The list of passes: hooks and timers see each that applies, and the page of the architecture
// names them in their order.
#include "compile/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;
using Names = std::vector<std::string>;

// Training in 8 bits has a pass of its own.
RunSpec eight_bits(const char* mesh) {
  RunSpec spec = small_spec(mesh);
  spec.train.fp8.recipe = Fp8Recipe::kTensor;
  return resolved(spec);
}

Names hooked(const char* mesh, StepKind kind) {
  Names names;
  build_step(eight_bits(mesh), kind,
             [&](const std::string& pass, const Graph&) { names.push_back(pass); });
  return names;
}

TEST(StepPasses, TheHookSeesEveryPassThatApplies) {
  EXPECT_EQ(hooked("dp=1", StepKind::kForward),
            (Names{"build_transformer", "expand_ring_attention", "regather_activations",
                   "recompute_cheap_values", "fuse_add_norm", "order_pipeline"}));
  Names all;
  for (const StepPass& pass : step_passes()) all.emplace_back(pass.name);
  EXPECT_EQ(all.size(), 14U);
  EXPECT_EQ(hooked("fsdp=2,tp=2,zero=3", StepKind::kTraining), all);
}

TEST(StepPasses, TheTimerRunsWhatTheHookSees) {
  Names timed;
  const RunSpec spec = eight_bits("fsdp=2,tp=2,zero=3");
  const StepGraph step = build_step(spec, StepKind::kTraining, {},
                                    [&](std::string_view pass, const std::function<void()>& run) {
                                      timed.emplace_back(pass);
                                      run();
                                    });
  EXPECT_EQ(timed, hooked("fsdp=2,tp=2,zero=3", StepKind::kTraining));
  EXPECT_EQ(to_text(step.graph()), to_text(build_step(spec, StepKind::kTraining).graph()));
}

TEST(StepPasses, AMistakeIsFoundInThePassThatMadeIt) {
  for (const StepPass& pass : step_passes()) {
    const std::string name = pass.name;
    try {
      build_step(eight_bits("fsdp=2,tp=2,zero=3"), StepKind::kTraining,
                 [&](const std::string& now, Graph& graph) {
                   if (now != name) return;
                   std::reverse(graph.mutable_nodes().begin(), graph.mutable_nodes().end());
                 });
      ADD_FAILURE() << name << " left nodes that read what comes later";
    } catch (const TypeError& error) {
      EXPECT_NE(std::string(error.what()).find("after pass " + name + ":"), std::string::npos)
          << error.what();
    }
  }
}

// Names in backquotes, in the order of the page, that are passes.
TEST(StepPasses, TheArchitecturePageHasThemInOrder) {
  std::ifstream page(std::string(TESSERA_SOURCE_DIR) + "/docs/architecture.md");
  Names expected;
  for (const StepPass& pass : step_passes()) expected.emplace_back(pass.name);
  Names found;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ")) continue;
    for (size_t at = line.find('`'); at != std::string::npos;) {
      const size_t end = line.find('`', at + 1);
      if (end == std::string::npos) break;
      const std::string word = line.substr(at + 1, end - at - 1);
      if (std::find(expected.begin(), expected.end(), word) != expected.end()) {
        found.push_back(word);
      }
      at = line.find('`', end + 1);
    }
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace tessera

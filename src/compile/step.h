// From a run description to the differentiated, rewritten graph, and from there to the Program of
// each rank. Pure: same input, same output; no files, clocks or threads.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/lower/lower.h"
#include "compile/program/check_program.h"

namespace tessera {

enum class StepKind { kTraining, kForward, kServe };

// The passes that make a step's graph, in the order in which they run: each is a row of the list
// in step.cc, which one loop runs.
struct StepPass {
  const char* name;                   // as hooks, timers and docs/architecture.md have it
  bool (*applies)(const StepGraph&);  // a pass that does not apply is left out
  void (*run)(StepGraph&);            // ends with check_graph where it moves or rewrites nodes
};
std::span<const StepPass> step_passes();

// Called with the graph after each pass that applies, before it is checked: tests plant mistakes
// here.
using PassHook = std::function<void(const std::string& pass, Graph& graph)>;
// Must call run(), once; may look at a clock before and behind it, which nothing here does.
using PassTimer = std::function<void(std::string_view pass, const std::function<void()>& run)>;

// `spec` must have gone through resolve().
StepGraph build_step(const RunSpec& spec, StepKind kind, const PassHook& hook = {},
                     const PassTimer& timer = {});

// A step of serving: the same model, tokens of any sequences, one micro-batch through the stages of
// `spec`, whose seq_len is the longest sequence. Throws ConfigError for what cannot be served.
StepGraph build_serve_step(const RunSpec& spec, const ServeStep& shape, const PassHook& hook = {});

// Every rank's Program; also checks that collectives match across ranks.
std::vector<Program> compile_ranks(const StepGraph& step);

}  // namespace tessera

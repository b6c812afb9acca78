// From a run description to the differentiated, rewritten graph, and from there to the Program of
// each rank. Pure: same input, same output; no files, clocks or threads.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "compile/parameters.h"
#include "compile/pipeline.h"
#include "compile/program.h"
#include "compile/stages.h"
#include "compile/transformer.h"

namespace tessera {

struct StepGraph {
  RunSpec spec;  // resolved
  Mesh mesh;
  StagePlan stages;
  ParameterLayout layout;
  ForwardGraph forward;  // after all passes: forward, backward, reduction and update
  bool training = true;
  // Per bucket: its gradient after reduction, as the optimizer sees it.
  std::vector<ValueId> bucket_gradient;
  ValueId metrics = kNoValue;  // after the all-reduce
  PipelineOrder pipeline;      // of the finished graph

  [[nodiscard]] const Graph& graph() const { return forward.graph; }
  // Whether the whole gradient of a bucket stays in memory until the last micro-batch.
  [[nodiscard]] bool keeps_full_gradients() const;
  // Whether gradients lie among the activations of `rank`: born in the backward pass, when other
  // values have died, and kept until the step ends. Not where they go on from micro-batch to
  // micro-batch, or where a rank runs the parts of several stages by turns.
  [[nodiscard]] bool gradients_are_activations(int rank) const;
  [[nodiscard]] bool gathers_weights_per_use() const;  // ZeRO-3 with something to gather
  // Whether it gives gathered weights back after each use.
  [[nodiscard]] bool releases_weights() const {
    return gathers_weights_per_use() && spec.parallel.release_after_forward;
  }
  // Whether the bucket is the copy of a tied weight whose original is on `rank` too: then it has a
  // gradient of its own and nothing else.
  [[nodiscard]] bool shares_weights(int rank, size_t bucket) const {
    const Bucket& copy = layout.buckets[bucket];
    return copy.copy_of >= 0 && holds(rank, copy.unit) &&
           holds(rank, layout.buckets[static_cast<size_t>(copy.copy_of)].unit);
  }
  // Whether `rank` runs the stage of `unit`.
  [[nodiscard]] bool holds(int rank, int unit) const {
    return stages.rank_of(unit) == mesh.coord(rank, Axis::kPp);
  }
};

enum class StepKind { kTraining, kForward };

// Called with the graph after each pass, before it is checked: tests plant mistakes here.
using PassHook = std::function<void(const std::string& pass, Graph& graph)>;

// `spec` must have gone through resolve().
StepGraph build_step(const RunSpec& spec, StepKind kind, const PassHook& hook = {});

// Storage, instructions, events, arena offsets, checked.
Program lower(const StepGraph& step, int rank);

// Every rank's Program; also checks that collectives match across ranks.
std::vector<Program> compile_ranks(const StepGraph& step);

// Buffers are written before they are read; every wait has a signal on the other stream; bytes that
// both streams touch are ordered by events. Throws InternalError naming the instruction.
void check_program(const Program& program);
// Members of each group issue the same collectives in the same order. Throws InternalError.
void check_collectives(const std::vector<Program>& programs);

}  // namespace tessera

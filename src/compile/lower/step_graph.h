// The finished graph of one optimizer step with everything that lowering needs to know about it.
#pragma once

#include <optional>
#include <vector>

#include "compile/model/parameters.h"
#include "compile/model/transformer.h"
#include "compile/pipeline/pipeline.h"
#include "compile/pipeline/stages.h"

namespace tessera {

struct StepGraph {
  RunSpec spec;  // resolved
  Mesh mesh;
  StageLayout stages;
  ParameterLayout layout;
  ForwardGraph forward;  // after all passes: forward, backward, reduction and update
  bool training = true;
  std::optional<ServeStep> serve;  // of a step of serving, which trains nothing
  // Per bucket: its gradient after reduction, as the optimizer sees it.
  std::vector<ValueId> bucket_gradient;
  ValueId metrics = kNoValue;  // after the all-reduce
  PipelineOrder pipeline;      // of the finished graph

  [[nodiscard]] const Graph& graph() const { return forward.graph; }
  // Whether the whole gradient of a bucket stays in memory until the last micro-batch.
  [[nodiscard]] bool keeps_full_gradients() const;
  // Whether gradients lie among the activations of `rank`: born in the backward pass, when other
  // values have died, and kept until the step ends. Not where they go on from micro-batch to
  // micro-batch, or where a rank runs the parts of several stages in turn.
  [[nodiscard]] bool gradients_are_activations(int rank) const;
  [[nodiscard]] bool masks_documents() const { return training && spec.data.document_mask; }
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

}  // namespace tessera

// The transformer as a typed graph of one micro-batch, with every cast it needs.
#pragma once

#include <map>
#include <vector>

#include "compile/model/parameters.h"
#include "compile/model/serve_step.h"
#include "graph/graph.h"

namespace tessera {

// What says which tokens a step of serving has. Every stage reads its own copy.
struct ServeInputs {
  ValueId positions = kNoValue, slots = kNoValue, first_row = kNoValue, kv_len = kNoValue;
  ValueId pages = kNoValue;
};
struct ServeValues {
  std::vector<ServeInputs> stages;
  ValueId rows = kNoValue;
  std::vector<ValueId> caches;  // by layer
};

struct ForwardGraph {
  Graph graph;
  ValueId tokens = kNoValue;
  ValueId labels = kNoValue;            // training only
  ValueId loss = kNoValue;              // training only
  ValueId logits = kNoValue;            // inference only
  ServeValues serve;                    // serving only
  std::vector<ValueId> bucket_storage;  // one per bucket
};

// training: ends in the masked cross entropy, in chunks of tokens. Otherwise: ends in all logits.
ForwardGraph build_transformer(const RunSpec& spec, const Mesh& mesh, const ParameterLayout& layout,
                               bool training);

// The graph of a step of serving ends in the logits of some rows, [parts of the vocabulary, rows,
// columns] in the accumulate type. `stage_of_unit`: who reads which copy of the inputs.
ForwardGraph build_serving_transformer(const RunSpec& spec, const Mesh& mesh,
                                       const ParameterLayout& layout, const ServeStep& serve,
                                       const std::vector<int>& stage_of_unit);

}  // namespace tessera

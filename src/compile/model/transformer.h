// The transformer as a typed graph of one micro-batch, with every cast it needs.
#pragma once

#include <map>
#include <vector>

#include "compile/model/parameters.h"
#include "graph/graph.h"

namespace tessera {

struct ForwardGraph {
  Graph graph;
  ValueId tokens = kNoValue;
  ValueId labels = kNoValue;            // training only
  ValueId loss = kNoValue;              // training only
  ValueId logits = kNoValue;            // inference only
  std::vector<ValueId> bucket_storage;  // one per bucket
};

// training: ends in the masked cross entropy, in chunks of tokens. Otherwise: ends in all logits.
ForwardGraph build_transformer(const RunSpec& spec, const Mesh& mesh, const ParameterLayout& layout,
                               bool training);

}  // namespace tessera

// Rewrites of the differentiated graph, each small and named; check_graph holds after every one.
#pragma once

#include "compile/model/parameters.h"
#include "compile/pipeline/stages.h"
#include "graph/graph.h"

namespace tessera {

// What a cast does on the axes of this mesh that have more than one rank; the same on all of them.
CastKind moving_kind(const Graph& graph, const Node& node, const Mesh& mesh);

// Whether a cast moves data between ranks of this mesh.
bool communicates(const Graph& graph, const Node& node, const Mesh& mesh);

// Runs the backward of each loss chunk right after its forward, so that only one chunk of logits
// is alive.
void interleave_loss_chunks(Graph& graph);

// A residual addition whose sum is normalised next becomes one op that reads and writes it once;
// not where the sum goes to the next stage.
void fuse_add_norm(Graph& graph, const StageLayout& stages);

// Moves weight gradients behind the next collective of their unit, which then hides behind them.
void delay_weight_gradients(Graph& graph, const Mesh& mesh);

// Gathered values are not kept from forward to backward but gathered again: the sequence-parallel
// inputs of column-split products, and the weights of each unit (ZeRO-3). The head is spared: its
// backward follows its forward at once.
void regather_activations(Graph& graph, const Mesh& mesh, const ParameterLayout& layout);
void regather_weights(Graph& graph, const ParameterLayout& layout);

// Issues the weight gathers of ZeRO-3 `depth` units before they are needed. `blocks` blocks of a
// stage are one unit here: their weights are gathered together, before the first of them runs.
void prefetch_gathers(Graph& graph, const ParameterLayout& layout, const StageLayout& stages,
                      int64_t depth, int64_t blocks);

}  // namespace tessera

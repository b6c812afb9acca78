// Recomputation: values of the forward pass that would be kept for the backward are computed again
// instead, by the same ops on the same values, so that results are the same bit for bit. The new
// nodes carry Pass::kRecompute.
#pragma once

#include <set>
#include <vector>

#include "compile/pipeline/stages.h"
#include "graph/graph.h"
#include "spec/run_spec.h"

namespace tessera {

using UnitGroup = std::set<int>;

// The blocks of each stage in runs of K, as parallel.recompute asks; empty: nothing is recomputed
// by whole blocks.
std::vector<UnitGroup> recompute_groups(const RunSpec& spec, const StageLayout& stages);

// Blocks whose cheap values are recomputed, and which those are.
struct CheapValues {
  UnitGroup units;
  bool norms = false, activations = false, attention = false;
};
std::vector<CheapValues> cheap_values(const RunSpec& spec, const StageLayout& stages);

// Only what enters a group from outside is kept. Right before the group's backward its forward runs
// again, collectives included, as far as the backward reads it. Needs a differentiated graph;
// delayed weight gradients and gathers come after it.
void recompute_units(Graph& graph, const std::vector<UnitGroup>& groups);

// What `all` names runs again just before its results are first read by a gradient; products and
// sums over ranks are kept. Comes after regather_activations, whose gathers are such readers, and
// before fuse_add_norm.
void recompute_cheap_values(Graph& graph, const Mesh& mesh, const std::vector<CheapValues>& all);

}  // namespace tessera

// Tools that the passes over the node list share.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "graph/graph.h"

namespace tessera {

// Input and weight gradients; what is computed again for them is neither.
bool is_backward(const Node& node);
bool reads(const Node& node, ValueId value);
bool reads_any(const Node& node, const std::set<ValueId>& values);

// Nodes to put before a position of the node list.
using Insertions = std::map<size_t, std::vector<Node>>;
void insert_nodes(Graph& graph, Insertions insertions);

using Renaming = std::map<ValueId, ValueId>;  // old value -> new value
void rename_inputs(Node& node, const Renaming& renamed);
// A second instance of `node` that reads `inputs`; `renamed` gets its outputs. The new values are
// called NAME.again.
Node clone_node(Graph& graph, const Node& node, std::vector<ValueId> inputs, Tag tag,
                Renaming& renamed);

}  // namespace tessera

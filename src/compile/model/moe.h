// The mixture-of-experts layer and its load-balancing loss, with every cast they need.
//
// Every rank routes its own tokens: on tp they are split like everywhere else (a slice, or the
// sequence-parallel split). Rows of tokens travel to the ranks of their experts and back in blocks
// of fixed capacity, so that memory and traffic are known before the run.
#pragma once

#include "compile/model/serve_step.h"
#include "graph/graph.h"
#include "graph/mesh.h"
#include "spec/run_spec.h"

namespace tessera {

struct MoeWeights {
  ValueId router_EH = kNoValue;
  ValueId gate_up_EFH = kNoValue;  // gate and up of every expert, stacked
  ValueId down_EHF = kNoValue;
};

struct MoeOutput {
  ValueId y_TH = kNoValue;
  ValueId stats = kNoValue;  // of the router, this layer added to `stats_before`
};

// x_TH is normalised; y_TH is placed like it. `serve`: of a step of serving, which has no
// statistics and room for the worst case; else null.
MoeOutput build_moe(Graph& graph, const RunSpec& spec, const Mesh& mesh, ValueId x_TH,
                    const MoeWeights& weights, int64_t layer, ValueId stats_before,
                    const ServeStep* serve = nullptr);

// Adds the load-balancing loss of all layers to `loss`. One exchange of a few numbers per sequence
// serves all layers: the loss couples them only through sums.
ValueId build_balance_loss(Graph& graph, const RunSpec& spec, ValueId stats, ValueId labels,
                           ValueId loss, Tag tag);

// Rows of one block: what a rank can send to one of the ranks that share the experts.
int64_t moe_capacity(const RunSpec& spec, const Mesh& mesh);

// Tokens of a micro-batch that one rank routes.
int64_t tokens_of_rank(const RunSpec& spec, const Mesh& mesh);
// Groups of sequences that reach over replicas need the statistics of all of them.
bool groups_span_replicas(const RunSpec& spec);

}  // namespace tessera

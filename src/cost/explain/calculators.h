// The topics, one function each; topic.cc lists them.
#pragma once

#include "cost/explain/topic.h"

namespace tessera {

Topic memory_topic();
Topic zero_topic();
Topic activations_topic();
Topic recompute_topic();
Topic ring_topic();
Topic tree_topic();
Topic average_topic();
Topic tp_topic();
Topic pipeline_topic();
Topic context_topic();
Topic bubble_topic();
Topic accumulate_topic();
Topic roofline_topic();
Topic flops_topic();
Topic cost_topic();
Topic scaling_topic();
Topic cluster_topic();
Topic grid_topic();
Topic failures_topic();

}  // namespace tessera

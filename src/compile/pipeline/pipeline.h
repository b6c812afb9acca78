// One order for all ranks of a pipeline: which nodes an action of the schedule runs, which values
// go from stage to stage, and where sends and receives stand between the actions of each rank.
//
// Messages are ordered by one simulated clock for the whole pipeline, and every rank does its sends
// and receives in that order. An action that needs a message starts later than the message is
// ready, so the order never waits in a circle, even where a send waits for its receiver
// (check_messages proves it).
#pragma once

#include <vector>

#include "compile/pipeline/stages.h"
#include "graph/graph.h"

namespace tessera {

// The nodes of one stage, in the order in which they run. A part runs without interruption: all of
// a micro-batch at once (the last stage when its backward follows its forward), or forward and
// backward, or forward, input gradients and weight gradients.
struct StageParts {
  std::vector<std::vector<size_t>> parts;  // places in graph.nodes(), ascending
};

// A value that is made in one stage and used in another, for every micro-batch.
struct StageCrossing {
  ValueId value = kNoValue;
  int from_stage = 0, to_stage = 0;
  int from_part = 0, to_part = 0;
};

// What a rank does next.
struct PipelineItem {
  enum class Kind : uint8_t { kPart, kSend, kReceive };
  Kind kind = Kind::kPart;
  int stage = 0;     // of kPart
  int part = 0;      // of kPart
  int crossing = 0;  // of kSend and kReceive
  int micro_batch = 0;
};

struct PipelineOrder {
  std::vector<StageParts> stages;
  std::vector<StageCrossing>
      crossings;  // also those between stages of one rank, which nobody sends
  std::vector<std::vector<PipelineItem>> items;  // by pipeline rank

  // The tag of the node that makes the value.
  [[nodiscard]] Tag tag_of(const Graph& graph, const StageCrossing& crossing) const;
};

PipelineOrder order_pipeline(const Graph& graph, const StageLayout& plan);

// Runs all ranks dry, a send waiting for its receiver. Throws InternalError naming the ranks that
// would wait for each other for ever.
void check_messages(const PipelineOrder& order, const StageLayout& plan);

}  // namespace tessera

// The generators behind make_schedule, one per file: the list of one pipeline rank.
#pragma once

#include <vector>

#include "compile/pipeline/schedule/schedule.h"

namespace tessera {

struct PipelineShape {
  int ranks = 1;
  int virtual_stages = 1;  // stages of each rank
  int micro_batches = 1;
  int group = 0;  // interleaved only

  [[nodiscard]] int stages() const { return ranks * virtual_stages; }
};

std::vector<StageAction> naive_actions(const PipelineShape& shape, int rank);
std::vector<StageAction> gpipe_actions(const PipelineShape& shape, int rank);
std::vector<StageAction> one_f_one_b_actions(const PipelineShape& shape, int rank);
std::vector<StageAction> interleaved_actions(const PipelineShape& shape, int rank);
std::vector<StageAction> zb_h1_actions(const PipelineShape& shape, int rank);
std::vector<StageAction> zb_h2_actions(const PipelineShape& shape, int rank);
std::vector<StageAction> zb_v_actions(const PipelineShape& shape, int rank);
std::vector<StageAction> dualpipe_v_actions(const PipelineShape& shape, int rank);

// What a schedule asks of the shape beyond what all ask; throws ConfigError.
void check_interleaved(const PipelineShape& shape);
void check_dualpipe_v(const PipelineShape& shape);

}  // namespace tessera

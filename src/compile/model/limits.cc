#include "compile/model/limits.h"

#include "base/error.h"
#include "spec/run_file/validate.h"

namespace tessera {

void require_writable_graph(const RunSpec& spec) {
  require_config(spec.model.layers <= kMaxBlocks,
                 "model.layers = {} is more than the {} blocks that a program is written for; use "
                 "fewer layers, or 'tessera explain' for figures without a program",
                 spec.model.layers, kMaxBlocks);
}

void require_writable_programs(const RunSpec& spec) {
  // As doubles: the factors may be large.
  const double passes = static_cast<double>(spec.model.layers) *
                        static_cast<double>(accumulation(spec)) *
                        static_cast<double>(spec.parallel.world() / spec.parallel.pp);
  require_config(passes <= static_cast<double>(kMaxBlockPasses),
                 "the programs of {} ranks would go through {:.3g} blocks and micro-batches, more "
                 "than {} can be written down; use fewer ranks or layers, a larger micro_batch, or "
                 "a smaller global_batch",
                 spec.parallel.world(), passes, kMaxBlockPasses);
}

}  // namespace tessera

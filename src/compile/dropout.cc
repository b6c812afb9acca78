#include "compile/dropout.h"

namespace tessera {

void set_dropout(const StepGraph& step, const Node& node, int rank, int64_t micro_batch,
                 KernelArgs& args) {
  if (node.attrs.dropout == 0) return;
  const Mesh& mesh = step.mesh;
  args.dropout = node.attrs.dropout;
  args.unit = node.tag.unit;
  args.site = node.attrs.site;
  // Sequences are dealt to replicas as fill_inputs does it.
  const int64_t replica = mesh.position(rank, sample_axes());
  args.first_sample =
      (micro_batch * step.spec.parallel.replicas() + replica) * step.spec.train.micro_batch;
}

}  // namespace tessera

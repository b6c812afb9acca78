#include "compile/lower/kernel_args.h"

#include "compile/model/moe.h"
#include "spec/run_file/lanes.h"

namespace tessera {

void set_dropout(const StepGraph& step, const Node& node, int rank, int64_t micro_batch,
                 KernelArgs& args) {
  if (node.attrs.dropout == 0) return;
  const Mesh& mesh = step.mesh;
  args.dropout = node.attrs.dropout;
  args.unit = node.tag.unit;
  args.site = node.attrs.site;
  const ReplicaBatch batch = replica_batch(step.spec, mesh.position(rank, sample_axes()));
  if (batch.is_padding(micro_batch)) return;
  args.first_sample = batch.number_of(micro_batch) * step.spec.train.micro_batch;
}

ExpertArgs expert_args(const StepGraph& step, const Node& node, int rank) {
  const ExpertAttrs& attrs = node.attrs.experts;
  ExpertArgs args;
  if (attrs.experts == 0) return args;
  const RunSpec& spec = step.spec;
  const Mesh& mesh = step.mesh;
  args.experts = attrs.experts;
  args.layers = attrs.layers;
  args.seq_len = spec.train.seq_len;
  args.group = attrs.group;
  args.coef = attrs.coef;
  args.sequences = spec.train.micro_batch;
  args.tokens_per_sequence = spec.train.seq_len / mesh.size(Axis::kCp);
  args.first_token = mesh.coord(rank, Axis::kTp) * tokens_of_rank(spec, mesh);
  if (groups_span_replicas(spec)) {
    const int64_t replica = mesh.position(rank, sample_axes());
    args.first_sequence = replica * spec.train.micro_batch;
  }
  return args;
}

}  // namespace tessera

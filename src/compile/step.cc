#include "compile/step.h"

#include "base/error.h"
#include "compile/model/limits.h"
#include "compile/passes/passes.h"
#include "compile/passes/recompute.h"
#include "compile/passes/ring_attention.h"
#include "compile/staged_step.h"
#include "graph/differentiate.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// The optimizer step: global norm, then AdamW on what each rank owns.
void add_update(StepGraph& step, const std::map<ValueId, ValueId>& gradients) {
  Graph& g = step.forward.graph;
  std::vector<ValueId> parts = {step.forward.loss};
  std::vector<ValueId> summed;  // gradients as the optimizer reads them
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    const Tag tag{Pass::kUpdate, bucket.unit, -1};
    ValueId gradient = gradients.at(step.forward.bucket_storage[b]);
    Attrs attrs;
    attrs.bucket = static_cast<int>(b);
    const bool tied = step.layout.tied_across_stages() &&
                      (bucket.copy_of >= 0 || static_cast<int>(b) == step.layout.tied_bucket());
    step.bucket_gradient.push_back(gradient);
    if (tied) {
      gradient = g.add_one(OpKind::kTieSum, {gradient}, "tied embedding sum", attrs, tag);
    }
    summed.push_back(gradient);
    if (bucket.copy_of >= 0) continue;  // counted where the original is
    parts.push_back(
        g.add_one(OpKind::kSumSquares, {gradient}, bucket.name + ".sum_squares", attrs, tag));
  }
  const Tag tag{Pass::kUpdate, step.layout.num_units - 1, -1};
  Attrs sums;
  sums.parts = static_cast<int64_t>(step.layout.buckets.size());
  const ValueId own = g.add_one(OpKind::kMetrics, parts, "metrics.own", sums, tag);
  step.metrics = g.cast(own, AxisSet::all(), invariant(), "metrics", tag);
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    Attrs attrs;
    attrs.bucket = static_cast<int>(b);
    g.add_one(OpKind::kAdamW, {step.forward.bucket_storage[b], summed[b], step.metrics},
              bucket.name + ".updated", attrs, {Pass::kUpdate, bucket.unit, -1});
  }
}

}  // namespace

StepGraph build_step(const RunSpec& spec, StepKind kind, const PassHook& hook) {
  require_trainable(spec.model);
  require_writable_graph(spec);
  return build_staged_step(spec, lay_out_stages(spec, kind == StepKind::kTraining), kind, hook);
}

StepGraph build_staged_step(const RunSpec& spec, StageLayout stages, StepKind kind,
                            const PassHook& hook) {
  StepGraph step;
  step.spec = spec;
  step.mesh = mesh_of(spec.parallel);
  step.training = kind == StepKind::kTraining;
  step.stages = std::move(stages);
  step.layout = layout_parameters(spec, step.mesh, spec.model.tied && step.stages.ends_differ());
  step.forward = build_transformer(spec, step.mesh, step.layout, step.training);
  Graph& graph = step.forward.graph;
  // Nodes are checked when they are added, and passes that move or rewrite them check the graph
  // themselves; a hook may have changed anything.
  const auto show = [&](const char* pass) {
    if (!hook) return;
    hook(pass, graph);
    check_graph(graph, pass);
  };
  show("build");
  if (step.training) {
    const bool narrow = spec.train.gradient_type() != accumulate_type(spec.train.dtype);
    const std::map<ValueId, ValueId> gradients = differentiate(graph, narrow);
    show("differentiate");
    add_update(step, gradients);
    show("update");
    interleave_loss_chunks(graph);
    recompute_units(graph, recompute_groups(spec, step.stages));
  }
  expand_ring_attention(graph, step.mesh);
  const bool overlaps = step.mesh.size(Axis::kTp) * step.mesh.size(Axis::kCp) > 1;
  if (step.training && overlaps) delay_weight_gradients(graph, step.mesh);
  regather_activations(graph, step.mesh, step.layout);
  recompute_cheap_values(graph, step.mesh, cheap_values(spec, step.stages));
  fuse_add_norm(graph, step.stages);
  if (step.gathers_weights_per_use()) {
    if (step.releases_weights()) regather_weights(graph, step.layout);
    prefetch_gathers(graph, step.layout, spec.parallel.prefetch);
  }
  show("schedule");
  step.pipeline = order_pipeline(graph, step.stages);
  return step;
}

std::vector<Program> compile_ranks(const StepGraph& step) {
  require_writable_programs(step.spec);
  std::vector<Program> programs;
  for (int rank = 0; rank < static_cast<int>(step.mesh.world()); ++rank) {
    programs.push_back(lower(step, rank));
  }
  check_collectives(programs);
  return programs;
}

}  // namespace tessera

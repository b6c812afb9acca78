#include "compile/step.h"

#include <algorithm>

#include "base/error.h"
#include "compile/limits.h"
#include "compile/passes.h"
#include "compile/recompute.h"
#include "compile/ring_attention.h"
#include "compile/staged_step.h"
#include "graph/differentiate.h"
#include "spec/trainable.h"
#include "spec/validate.h"

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

bool StepGraph::keeps_full_gradients() const {
  const bool accumulates = accumulation(spec) > 1;
  const bool sums_over_ranks = mesh.size(layout.shard_axes.with(layout.replica_axes)) > 1;
  const bool each_micro_batch =
      accumulates && spec.parallel.grad_reduce == "micro_batch" && sums_over_ranks;
  if (each_micro_batch) return false;
  return spec.parallel.zero <= 1 || layout.shards == 1 || accumulates;
}

bool StepGraph::gradients_are_activations(int rank) const {
  const std::vector<int>& rank_of_stage = stages.schedule.rank_of_stage;
  const auto mine = static_cast<int>(mesh.coord(rank, Axis::kPp));
  return training && accumulation(spec) == 1 && !stages.schedule.asynchronous &&
         std::count(rank_of_stage.begin(), rank_of_stage.end(), mine) == 1;
}

bool StepGraph::gathers_weights_per_use() const {
  return spec.parallel.zero == 3 && layout.shards > 1;
}

StepGraph build_step(const RunSpec& spec, StepKind kind, const PassHook& hook) {
  require_trainable(spec.model);
  require_writable_graph(spec);
  return build_staged_step(spec, plan_stages(spec, kind == StepKind::kTraining), kind, hook);
}

StepGraph build_staged_step(const RunSpec& spec, StagePlan stages, StepKind kind,
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

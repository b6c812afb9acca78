#include "compile/step.h"

#include "base/error.h"
#include "compile/model/limits.h"
#include "compile/model/loss_chunks.h"
#include "compile/model/servable.h"
#include "compile/passes/passes.h"
#include "compile/passes/quantise_products.h"
#include "compile/passes/recompute.h"
#include "compile/passes/ring_attention.h"
#include "compile/staged_step.h"
#include "graph/differentiate.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// Nodes are checked when they are added: passes that only add some leave it at that.
void build(StepGraph& step) {
  if (!step.forward.graph.nodes().empty()) return;  // that of a template
  if (step.serve) {
    step.forward = build_serving_transformer(step.spec, step.mesh, step.layout, *step.serve,
                                             step.stages.stage_of_unit);
    return;
  }
  step.forward = build_transformer(step.spec, step.mesh, step.layout, step.training);
}

void add_backward(StepGraph& step) {
  const TrainSpec& train = step.spec.train;
  const bool narrow = train.gradient_type() != accumulate_type(train.dtype);
  const std::map<ValueId, ValueId> gradients = differentiate(step.forward.graph, narrow);
  for (const ValueId bucket : step.forward.bucket_storage) {
    step.bucket_gradient.push_back(gradients.at(bucket));
  }
}

// The optimizer step: global norm, then the update of what each rank owns.
void add_update(StepGraph& step) {
  Graph& g = step.forward.graph;
  std::vector<ValueId> parts = {step.forward.loss};
  std::vector<ValueId> summed;  // gradients as the optimizer reads them
  const bool copies_tied = step.layout.tied_across_stages();
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    const Tag tag{Pass::kUpdate, bucket.unit, -1};
    ValueId gradient = step.bucket_gradient[b];
    Attrs attrs;
    attrs.bucket = static_cast<int>(b);
    const bool tied =
        copies_tied && (bucket.copy_of >= 0 || static_cast<int>(b) == step.layout.tied_bucket());
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
  const OpKind update =
      step.spec.optimizer.kind == OptimizerKind::kSgd ? OpKind::kSgd : OpKind::kAdamW;
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    Attrs attrs;
    attrs.bucket = static_cast<int>(b);
    g.add_one(update, {step.forward.bucket_storage[b], summed[b], step.metrics},
              bucket.name + ".updated", attrs, {Pass::kUpdate, bucket.unit, -1});
  }
}

bool always(const StepGraph&) { return true; }
bool trains(const StepGraph& step) { return step.training; }
bool quantises(const StepGraph& step) { return step.training && step.spec.train.fp8.on(); }
bool overlaps_gradients(const StepGraph& step) {
  return step.training && step.mesh.size(Axis::kTp) * step.mesh.size(Axis::kCp) > 1;
}
bool gathers_weights(const StepGraph& step) { return step.gathers_weights_per_use(); }
bool releases_weights(const StepGraph& step) { return step.releases_weights(); }

constexpr StepPass kPasses[] = {
    {"build_transformer", always, build},
    {"differentiate", trains, add_backward},
    {"quantise_products", quantises,
     [](StepGraph& step) { quantise_products(step.forward.graph, step.spec, step.mesh); }},
    {"add_update", trains, add_update},
    {"interleave_loss_chunks", trains,
     [](StepGraph& step) { interleave_loss_chunks(step.forward.graph); }},
    {"recompute_units", trains,
     [](StepGraph& step) {
       recompute_units(step.forward.graph, recompute_groups(step.spec, step.stages));
     }},
    {"expand_ring_attention", always,
     [](StepGraph& step) { expand_ring_attention(step.forward.graph, step.mesh); }},
    {"delay_weight_gradients", overlaps_gradients,
     [](StepGraph& step) { delay_weight_gradients(step.forward.graph, step.mesh); }},
    {"regather_activations", always,
     [](StepGraph& step) { regather_activations(step.forward.graph, step.mesh, step.layout); }},
    {"recompute_cheap_values", always,
     [](StepGraph& step) {
       recompute_cheap_values(step.forward.graph, step.mesh, cheap_values(step.spec, step.stages));
     }},
    {"fuse_add_norm", always,
     [](StepGraph& step) { fuse_add_norm(step.forward.graph, step.stages); }},
    {"regather_weights", releases_weights,
     [](StepGraph& step) { regather_weights(step.forward.graph, step.layout); }},
    {"prefetch_gathers", gathers_weights,
     [](StepGraph& step) {
       const ParallelSpec& parallel = step.spec.parallel;
       prefetch_gathers(step.forward.graph, step.layout, step.stages, parallel.prefetch,
                        parallel.unit_blocks);
     }},
    {"order_pipeline", always,
     [](StepGraph& step) { step.pipeline = order_pipeline(step.forward.graph, step.stages); }},
};

void run_passes(StepGraph& step, const PassHook& hook, const PassTimer& timer) {
  for (const StepPass& pass : kPasses) {
    if (!pass.applies(step)) continue;
    if (timer) {
      timer(pass.name, [&] { pass.run(step); });
    } else {
      pass.run(step);
    }
    if (!hook) continue;
    hook(pass.name, step.forward.graph);
    check_graph(step.forward.graph, pass.name);  // a hook may have changed anything
  }
}

}  // namespace

std::span<const StepPass> step_passes() { return kPasses; }

StepGraph build_step(const RunSpec& spec, StepKind kind, const PassHook& hook,
                     const PassTimer& timer) {
  require_trainable(spec.model);
  require_writable_graph(spec);
  TESSERA_CHECK(kind != StepKind::kServe, "a step of serving has a shape: build_serve_step()");
  return build_staged_step(spec, lay_out_stages(spec, kind == StepKind::kTraining), kind, hook,
                           timer);
}

namespace {

// All but the graph.
StepGraph unbuilt_step(const RunSpec& spec, StageLayout stages, StepKind kind) {
  StepGraph step;
  step.spec = spec;
  step.mesh = mesh_of(spec.parallel);
  step.training = kind == StepKind::kTraining;
  step.stages = std::move(stages);
  step.layout = layout_parameters(spec, step.mesh, spec.model.tied && step.stages.ends_differ());
  return step;
}

}  // namespace

StepGraph build_staged_step(const RunSpec& spec, StageLayout stages, StepKind kind,
                            const PassHook& hook, const PassTimer& timer) {
  StepGraph step = unbuilt_step(spec, std::move(stages), kind);
  run_passes(step, hook, timer);
  return step;
}

StepGraph build_template_step(const RunSpec& spec, StageLayout stages, int64_t most_loss_chunks) {
  StepGraph step = unbuilt_step(spec, std::move(stages), StepKind::kTraining);
  step.forward = build_transformer_of_chunks(spec, step.mesh, step.layout, most_loss_chunks);
  run_passes(step, {}, {});
  return step;
}

StepGraph build_serve_step(const RunSpec& spec, const ServeStep& shape, const PassHook& hook) {
  require_trainable(spec.model);
  require_writable_graph(spec);
  require_servable(spec, shape);
  StepGraph step = unbuilt_step(spec, lay_out_serving_stages(spec), StepKind::kServe);
  step.serve = shape;
  run_passes(step, hook, {});
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

// How far gradients of bf16 may be from exact ones: per tensor, relative to its Frobenius norm,
// 4 * 1.03^depth * 2^-8, depth being the number of blocks from the loss to the tensor.
//
// 1.03 says that a block passes a small change on almost as it is, which depends on the weights. In
// the model below a standard deviation of 0.08 makes one rounding of the first norm, 2^-9, an error
// of 0.011 in the second block's query weights; 0.02, the default of every family, at most 0.003.
// So the models here have the families' blocks and default initialisation, at a width where a norm
// is one of hundreds of roundings and not of dozens, and the depth of tests/data/hf: two blocks.
// What the forward pass rounds reaches every gradient, and the bound does not count the blocks
// before a tensor: with eight blocks, weights of the last ones come to 1.0 to 1.3 of it.
#pragma once

#include <cmath>
#include <limits>
#include <string>

#include "support/hf_models.h"
#include "support/record.h"
#include "support/tiny.h"

namespace tessera::testing {

// A model of a family in f64 for which the bound holds. Two heads of 128 columns, as the large ones
// have. Every expert gets every token: where only some do, rounding may choose another one, and the
// gradient jumps.
inline RunSpec bound_spec(const std::string& hf_model) {
  RunSpec spec = hf_model_spec(hf_model, DType::kF64);
  ModelSpec& model = spec.model;
  model.hf.clear();
  model.init_std = 0.02;
  model.kv_heads = 2 * model.kv_heads / model.heads;
  model.heads = 2;
  model.head_dim = 128;
  model.hidden = 256;
  model.ffn = 512;
  model.vocab = 256;
  model.max_positions = 64;
  if (model.experts > 0) model.experts_per_token = model.experts;
  spec.train.seq_len = 64;
  spec.train.micro_batch = spec.train.global_batch = 4;
  resolve(spec);
  return spec;
}

inline constexpr uint64_t kBoundSeeds[] = {1, 2};

inline RunSpec in_bf16(RunSpec spec) {
  spec.train.dtype = DType::kBF16;
  return spec;
}

// Weights that bf16 holds exactly, so that both sides begin with the same.
inline TensorSource bf16_weights(const ModelSpec& model, uint64_t seed) {
  return [source = initial_weights(model, seed)](const LogicalTensor& tensor, int64_t first,
                                                 std::span<double> values) {
    source(tensor, first, values);
    for (double& v : values) v = static_cast<float>(BFloat16(static_cast<float>(v)));
  };
}

// One tensor multiplied by `factor`.
inline TensorSource scaled_weight(TensorSource source, const std::string& name, double factor) {
  return [=](const LogicalTensor& tensor, int64_t first, std::span<double> values) {
    source(tensor, first, values);
    if (tensor.name != name) return;
    for (double& v : values) v *= factor;
  };
}

// The first step of a run on random tokens, every third of them masked.
inline StepRecord first_step(const RunSpec& spec, const TensorSource& weights,
                             const Injection& fault = {}) {
  ShortRun run = short_run(spec, random_samples(spec, "some"));
  run.steps = 1;
  run.weights = weights;
  run.inject = fault;
  return record_run(run).front();
}

// Blocks from the loss to a tensor, its own included: none for the head and the final norm.
inline double depth_of(const std::string& tensor, int64_t layers) {
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (const char* prefix : {"model.layers.", "transformer.h."}) {
      const std::string block = fmt::format("{}{}.", prefix, layer);
      if (tensor.rfind(block, 0) == 0) return static_cast<double>(layers - layer);
    }
  }
  for (const char* part : {"embed", "wte", "wpe"}) {
    if (tensor.find(part) != std::string::npos) return static_cast<double>(layers + 1);
  }
  return 0;
}

inline double bf16_bound(const std::string& tensor, int64_t layers) {
  return 4 * std::pow(1.03, depth_of(tensor, layers)) / 256;
}

// The tensor that is nearest to its bound, or furthest beyond it.
struct BoundUse {
  std::string tensor;
  double part = 0;  // of its bound: at most 1 where all tensors are within theirs
};

inline BoundUse bound_use(const StepRecord& mine, const StepRecord& reference, int64_t layers) {
  BoundUse most;
  for (const Difference& d : differences(mine.gradients, reference.gradients)) {
    const double part = std::isnan(d.relative) ? std::numeric_limits<double>::infinity()
                                               : d.relative / bf16_bound(d.name, layers);
    if (part > most.part) most = {d.name, part};
  }
  return most;
}

// Faults that the bound must find: weights of the llama model above that begin rolled by one row,
// or 5 % too large.
inline constexpr const char* kFaultyWeights[] = {
    "model.embed_tokens.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.k_proj.weight",
    "model.layers.1.self_attn.v_proj.weight",
    "model.layers.1.self_attn.o_proj.weight",
    "model.layers.0.mlp.gate_proj.weight",
    "model.layers.1.mlp.up_proj.weight",
    "model.layers.1.mlp.down_proj.weight",
    "lm_head.weight",
};

// Both faults of every weight are seen on the device that `narrow` names.
inline void expect_faults_found(const RunSpec& exact, const RunSpec& narrow) {
  const TensorSource weights = bf16_weights(exact.model, kBoundSeeds[0]);
  const StepRecord reference = first_step(exact, weights);
  const auto part = [&](const TensorSource& source, const Injection& fault) {
    return bound_use(first_step(narrow, source, fault), reference, exact.model.layers).part;
  };
  for (const std::string name : kFaultyWeights) {
    SCOPED_TRACE(name);
    EXPECT_GT(part(weights, parse_injection("roll-shard:rank=0,tensor=" + name)), 1);
    EXPECT_GT(part(scaled_weight(weights, name, 1.05), {}), 1);
  }
}

}  // namespace tessera::testing

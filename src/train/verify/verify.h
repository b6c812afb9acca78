// Do two meshes, or a mesh and recorded values, compute the same numbers?
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spec/run_spec.h"
#include "train/samples/batch.h"
#include "train/session/injection.h"

namespace tessera {

// The state of every step of a short run, as whole tensors.
struct StepRecord {
  double loss = 0;
  double grad_norm = 0;
  std::vector<LogicalValues> gradients;  // per token of the global batch, before clipping
  std::vector<LogicalValues> weights;    // after the update
};
struct ShortRun {
  RunSpec spec;  // resolved
  int64_t steps = 3;
  SampleSource samples;
  TensorSource weights = {};  // empty: initial weights, or the model's Hugging Face folder
  Injection inject = {};
  bool constant_lr = false;
  std::function<void(std::vector<Program>&)> edit_programs = {};  // tests plant faults here
  StartsSource starts = {};  // of the samples, where they say it themselves
};
std::vector<StepRecord> record_run(const ShortRun& run);

// The same, with what the plan said and what the ranks measured: plan.json and summary.json's
// "ranks".
struct MeasuredRun {
  std::vector<StepRecord> steps;
  nlohmann::ordered_json plan;
  nlohmann::ordered_json measured;
};
MeasuredRun record_and_measure(const ShortRun& run);

inline constexpr int kVerifySchemaVersion = 1;

struct VerifyReport {
  bool equal = false;
  nlohmann::ordered_json json;
  std::string text;
};

struct VerifyOptions {
  RunSpec left;   // the reference
  RunSpec right;  // gets the injection
  int64_t steps = 3;
  double tolerance = 1e-12;
  Injection inject;
};
// The text is that of [data]. Both runs sum gradients over ranks at the same points
// (parallel.grad_reduce), so that ZeRO stages can be compared bit for bit.
VerifyReport verify_meshes(const VerifyOptions& options);

struct GoldenOptions {
  std::string hf;      // Hugging Face folder
  std::string golden;  // safetensors file with logits, loss, gradients, trajectory
  ParallelSpec parallel;
  DType dtype = DType::kF64;
  double tolerance = 1e-9;
};
// Batches that do not divide over the mesh are filled up with masked samples.
VerifyReport verify_golden(const GoldenOptions& options);

}  // namespace tessera

// What the writers of emit_settings.h share.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "spec/recompute.h"
#include "spec/run_spec.h"

namespace tessera {

// What a system has no setting for, each with what to use instead. Settings that would quietly run
// something else are worse than none.
class Inexpressible {
 public:
  void add(std::string what, std::string_view instead) {
    items_.push_back(fmt::format("{} ({})", what, instead));
  }
  void refuse(std::string_view system) const {
    require_config(items_.empty(), "{} has no setting for: {}", system, fmt::join(items_, "; "));
  }

 private:
  std::vector<std::string> items_;
};

// Whether every stage has as many layers as the others.
inline bool even_stages(const ParallelSpec& parallel) {
  for (const int64_t layers : parallel.stage_layers) {
    if (layers != parallel.stage_layers.front()) return false;
  }
  return true;
}

// How to make them even: the compiler weighs the embedding and the head when nobody says.
inline std::string equal_stages_advice(const RunSpec& spec) {
  const int64_t stages = spec.parallel.pp * spec.parallel.virtual_stages;
  if (spec.model.layers % stages != 0) return "use a pp that divides the layers";
  const std::vector<int64_t> equal(static_cast<size_t>(stages), spec.model.layers / stages);
  return fmt::format("use --set parallel.stage_layers={}", fmt::join(equal, "+"));
}

// Sharded over fsdp, and again over replicas of that.
inline bool is_hybrid_sharded(const ParallelSpec& parallel) {
  return parallel.zero > 0 && parallel.fsdp > 1 && parallel.dp > 1;
}

// How every block is recomputed; nothing where blocks or stages differ.
inline std::optional<RecomputeChoice> recomputation_of_all(const RunSpec& spec) {
  const std::string& text = spec.parallel.recompute;
  if (text.find('/') != std::string::npos) return std::nullopt;
  const std::vector<RecomputePart> parts = parse_recompute(text, spec.model.layers);
  if (parts.size() > 1) return std::nullopt;
  return parts.back().choice;
}

std::string megatron_settings(const RunSpec& spec);
std::string torchtitan_settings(const RunSpec& spec);
std::string deepspeed_settings(const RunSpec& spec);
std::string nanotron_settings(const RunSpec& spec);

}  // namespace tessera

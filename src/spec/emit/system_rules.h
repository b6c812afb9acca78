// What the settings of other training systems can say of a split. One row a system: --emit refuses
// by it, and `search --for` searches within it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/recompute.h"
#include "spec/run_spec.h"

namespace tessera {

class Inexpressible;

enum class StageRule : uint8_t { kAny, kFewerAtTheEnds, kEqual, kOwn };
enum class SequenceRule : uint8_t { kEither, kAlwaysWithTp, kNever };

// What a system weighs that cuts a model into stages itself.
struct CutSizes {
  int64_t layers = 0, hidden = 0, ffn = 0, vocab = 0;
};

struct SystemRules {
  std::string_view name;   // as flags have it
  std::string_view title;  // as its authors write it
  std::span<const PipelineKind> schedules;
  std::span<const int64_t> zero;
  std::span<const int64_t> zero_with_pp;
  std::span<const int64_t> zero_within_fsdp = {};  // sharded over fsdp, and again over dp
  std::span<const ContextKind> context = {};       // empty: no cp
  SequenceRule sequence = SequenceRule::kEither;
  StageRule stages = StageRule::kAny;
  std::vector<int64_t> (*own_stages)(const CutSizes&, int64_t stages) = nullptr;  // of kOwn
  bool tp_above_kv_heads = true;
  bool experts = true;  // ep above 1
  // Where all blocks are alike; what differs between blocks no system says.
  bool (*recompute)(const RecomputeChoice&) = nullptr;
  std::string_view recompute_names;  // "none or full"
  std::span<const LrSchedule> learning_rates = {};
  std::string_view zero_note = {}, stages_note = {}, experts_note = {};
};

std::span<const SystemRules> system_rules();
// Throws ConfigError with the nearest name.
const SystemRules& rules_of(std::string_view system);
std::string system_names();  // "megatron|torchtitan|deepspeed"

// Whether a pipeline of these stages, of which each has so many layers, can be said.
bool can_cut(const SystemRules& rules, const CutSizes& sizes,
             std::span<const int64_t> stage_layers);
// Nothing: blocks or stages differ.
bool can_recompute(const SystemRules& rules, const std::optional<RecomputeChoice>& all);

// Adds what of the run's split the system has no setting for.
void add_refusals(const SystemRules& rules, const RunSpec& spec, Inexpressible& missing);

}  // namespace tessera

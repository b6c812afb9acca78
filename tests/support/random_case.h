// Random lines for parse_case: every mesh that resolve() accepts can be drawn.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "compile/step.h"
#include "support/tiny.h"

namespace tessera::testing {

// One row per key; a value that is written twice is twice as likely, and one that needs other keys
// brings them along. What resolve() or the compiler refuses is drawn again.
struct DrawnKey {
  const char* key;
  std::vector<std::string> values;
};
inline const std::vector<DrawnKey>& drawn_keys() {
  static const std::vector<DrawnKey> keys = {
      {"pp", {"1", "1", "2", "3", "4"}},
      {"dp", {"1", "1", "2", "3", "4", "5"}},
      {"fsdp", {"1", "1", "2", "3"}},
      {"cp", {"1", "1", "2", "3", "4"}},
      {"tp", {"1", "1", "2", "4"}},
      {"zero", {"0", "1", "2", "3"}},
      {"sequence_parallel", {"false", "true"}},
      {"prefetch", {"0", "1", "2"}},
      {"release_after_forward", {"true", "true", "false"}},
      {"overlap", {"true", "true", "false"}},
      {"bucket_mb", {"1", "25"}},
      {"grad_reduce", {"auto", "step", "micro_batch"}},
      {"recompute", {"none", "light", "selective", "full", "every-2"}},
      {"schedule",
       {"naive", "gpipe", "1f1b", "interleaved virtual_stages=2", "zb-h1", "zb-h2", "zb-v",
        "dualpipe-v"}},
      {"cp_kind", {"ring", "allgather", "ulysses"}},
      {"dropout", {"0", "0", "0.2"}},
      {"attention_dropout", {"0", "0", "0.2"}},
      {"layers", {"1", "2", "3", "4", "5"}},
      {"hidden", {"16", "12", "20"}},
      {"ffn", {"24", "21", "13"}},
      {"kv_heads", {"1", "2", "4"}},
      {"head_dim", {"4", "2", "6"}},
      {"vocab", {"40", "37", "17"}},
      // After what it may have to overrule. A norm over heads of two would magnify rounding errors.
      {"family",
       {"llama", "llama", "llama", "qwen2", "qwen3 head_dim=4", "mistral sliding_window=3",
        "gpt2 kv_heads=4 hidden=16 head_dim=4", "mixtral experts=4 router_aux_coef=0.1",
        "mixtral experts=4 router_aux_coef=0.1 ep=2", "mixtral experts=8 ep=4",
        "mixtral experts=5 experts_per_token=1 aux_group=1"}},
      {"tied", {"false", "true"}},
      {"seq_len", {"8", "12", "7"}},
      {"micro_batch", {"1", "2"}},
      {"loss_chunk", {"512", "5", "8"}},
      {"document_mask", {"false", "false", "true end_token=3"}},
      {"kind",
       {"adamw", "adamw", "sgd eps=1e-8 lr=0.05", "sgd eps=1e-8 lr=0.05 momentum=0.9",
        "sgd eps=1e-8 lr=0.05 momentum=0.9 nesterov=true"}},
  };
  return keys;
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}
  // Written out, because the distributions of the standard library differ between libraries.
  size_t below(size_t n) { return static_cast<size_t>(engine_() % n); }
  const std::string& one_of(const std::vector<std::string>& values) {
    return values[below(values.size())];
  }

 private:
  std::mt19937 engine_;
};

inline constexpr int64_t kMaxWorld = 8;

inline std::string draw_line(Dice& dice) {
  std::string line;
  for (const DrawnKey& row : drawn_keys()) {
    line += fmt::format("{}={} ", row.key, dice.one_of(row.values));
  }
  return line + "mask=" + dice.one_of({"none", "some", "replica"});
}

// The line of a seed: up to 8 ranks, one to four micro-batches in a step.
inline std::string random_case(uint64_t seed) {
  constexpr int kTries = 20'000;
  Dice dice(seed);
  std::string refusal;
  for (int i = 0; i < kTries; ++i) {
    const std::string line = draw_line(dice);
    const size_t accumulate = 1 + dice.below(4);
    try {
      const TinyCase drawn = parse_case(line + " global_batch=0");
      const RunSpec& one = drawn.spec;
      if (one.parallel.world() > kMaxWorld) continue;
      if (drawn.mask == "replica" && one.parallel.replicas() == 1) continue;  // nothing to learn
      const std::string whole = fmt::format(
          "{} global_batch={}", line, static_cast<size_t>(one.train.global_batch) * accumulate);
      build_step(parse_case(whole).spec, StepKind::kTraining);  // refuses layers for the stages
      return whole;
    } catch (const ConfigError& error) {
      refusal = error.what();
    }
  }
  throw Error(
      fmt::format("seed {}: {} draws refused, the last one because {}", seed, kTries, refusal));
}

}  // namespace tessera::testing

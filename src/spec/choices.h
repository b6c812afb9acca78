// The choices of a run file: one enum each, with the names that a file, a flag, JSON and messages
// use for its values. A new value is a name here and the code that honours it; a pipeline schedule
// is a file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spec/schedule_rows.h"

namespace tessera {

// Names of the values of E, in their order.
template <typename E>
inline constexpr std::array<std::string_view, 0> kNamesOf = {};

enum class ModelFamily : uint8_t { kLlama, kMistral, kQwen2, kQwen3, kGpt2, kMixtral };
template <>
inline constexpr std::array<std::string_view, 6> kNamesOf<ModelFamily> = {
    "llama", "mistral", "qwen2", "qwen3", "gpt2", "mixtral"};

enum class NormKind : uint8_t {
  kRms,
  kLayer,  // LayerNorm with bias
};
template <>
inline constexpr std::array<std::string_view, 2> kNamesOf<NormKind> = {"rms", "layer"};

enum class MlpKind : uint8_t {
  kSwiglu,
  kGelu,  // one projection up, GELU in its tanh form
  kRelu,  // as gelu
};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<MlpKind> = {"swiglu", "gelu", "relu"};

enum class PositionKind : uint8_t {
  kRope,
  kLearned,  // a table added to the embedding
  kAlibi,
};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<PositionKind> = {"rope", "learned",
                                                                           "alibi"};

enum class AttentionBias : uint8_t {
  kNone,
  kQkv,
  kAll,  // of the output projection too
};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<AttentionBias> = {"none", "qkv", "all"};

enum class RopeScaling : uint8_t {
  kDefault,
  kLlama3,  // Llama 3.1: frequencies stretched by wavelength
};
template <>
inline constexpr std::array<std::string_view, 2> kNamesOf<RopeScaling> = {"default", "llama3"};

// When gradients are summed over ranks.
enum class GradReduce : uint8_t {
  kAuto,        // micro_batch for ZeRO 2 and 3
  kStep,        // once, after accumulation
  kMicroBatch,  // every micro-batch, so that sharded gradients stay sharded
};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<GradReduce> = {"auto", "step",
                                                                         "micro_batch"};

// How attention meets keys of other cp ranks.
enum class ContextKind : uint8_t {
  kRing,
  kAllGather,  // of keys and values
  kUlysses,    // all-to-all from tokens to heads and back
};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<ContextKind> = {"ring", "allgather",
                                                                          "ulysses"};

// What backward computes again instead of keeping it. How a run file combines these is in
// recompute.h.
enum class Recompute : uint8_t {
  kNone,
  kNorms,
  kLight,      // norms and activations
  kSelective,  // these, and the core of attention
  kFull,       // every layer from its input
};
template <>
inline constexpr std::array<std::string_view, 5> kNamesOf<Recompute> = {"none", "norms", "light",
                                                                        "selective", "full"};

// One value for each file of compile/pipeline/schedule/named.
#define TESSERA_ENUMERATOR(enumerator, name, ...) enumerator,
enum class PipelineKind : uint8_t { TESSERA_SCHEDULES(TESSERA_ENUMERATOR) };
#undef TESSERA_ENUMERATOR
#define TESSERA_NAME(enumerator, name, ...) name,
template <>
inline constexpr auto kNamesOf<PipelineKind> =
    std::to_array<std::string_view>({TESSERA_SCHEDULES(TESSERA_NAME)});
#undef TESSERA_NAME

enum class TrainDevice : uint8_t {
  kCpu,
  kCuda,
  kAuto,  // a GPU where there is one
};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<TrainDevice> = {"cpu", "cuda", "auto"};

// Whether a step is launched as one CUDA graph.
enum class CudaGraph : uint8_t {
  kAuto,  // where launching takes most of a step
  kOn,
  kOff,
};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<CudaGraph> = {"auto", "on", "off"};

// What shares a scale where products are computed in 8 bits.
enum class Fp8Recipe : uint8_t {
  kNone,
  kTensor,  // a matrix
  kRow,     // a row, or a column: what is not summed
  kBlock,   // a piece of a row, a square of a weight
};
template <>
inline constexpr std::array<std::string_view, 4> kNamesOf<Fp8Recipe> = {"none", "tensor", "row",
                                                                        "block"};

// What changes the weights.
enum class OptimizerKind : uint8_t {
  kAdamW,
  kSgd,  // with momentum where that is above 0
};
template <>
inline constexpr std::array<std::string_view, 2> kNamesOf<OptimizerKind> = {"adamw", "sgd"};

// How the learning rate goes on after its warm-up.
enum class LrSchedule : uint8_t {
  kConstant,
  kLinear,       // falls to min_lr
  kCosine,       // likewise, by half a wave
  kWsd,          // stays, then falls as linear in the last steps
  kInverseSqrt,  // falls with the root of the step, not below min_lr
};
template <>
inline constexpr std::array<std::string_view, 5> kNamesOf<LrSchedule> = {
    "constant", "linear", "cosine", "wsd", "inverse_sqrt"};

// Which weights decay.
enum class DecayOn : uint8_t {
  kMatrices,
  kAll,
  kNone,
};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<DecayOn> = {"matrices", "all", "none"};

template <typename E>
concept ChoiceEnum = kNamesOf<E>
.size() > 0;

template <ChoiceEnum E>
constexpr std::string_view name_of(E value) {
  return kNamesOf<E>.at(static_cast<size_t>(value));
}

// Nothing where `name` is none of them.
template <ChoiceEnum E>
constexpr std::optional<E> choice_named(std::string_view name) {
  for (size_t i = 0; i < kNamesOf<E>.size(); ++i) {
    if (kNamesOf<E>[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

// Throws ConfigError with the nearest known name.
PipelineKind pipeline_kind(std::string_view name);

// parallel.schedule: a schedule that we know, or a CSV file with one of the user's own.
class PipelineChoice {
 public:
  PipelineChoice(PipelineKind kind) : kind_(kind) {}  // implicit: a kind is a choice
  // As text() writes it. Throws ConfigError with the nearest known name.
  static PipelineChoice parse(std::string_view text);

  [[nodiscard]] bool is_file() const { return !file_.empty(); }
  [[nodiscard]] const std::string& file() const { return file_; }  // empty: a kind
  // Nothing where it is a file.
  [[nodiscard]] std::optional<PipelineKind> kind() const {
    return is_file() ? std::nullopt : std::optional(kind_);
  }
  // As a run file has it: a name, or a path that ends in .csv.
  [[nodiscard]] std::string text() const { return is_file() ? file_ : std::string(name_of(kind_)); }

  bool operator==(const PipelineChoice&) const = default;
  bool operator==(PipelineKind other) const { return kind() == other; }

 private:
  PipelineKind kind_;
  std::string file_;
};

}  // namespace tessera

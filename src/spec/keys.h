// The one table of run file keys. It drives parsing, --set, --mesh, JSON in and out, range checks
// and the suggestions for unknown names: a new key is a new row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/text/quantity.h"
#include "spec/run_spec.h"

namespace tessera {

// The largest size of a mesh axis: five of them still multiply without overflow.
inline constexpr int64_t kMaxAxis = 4096;

struct Betas {
  double* first;
  double* second;
};

// train.dtype: "fp8" is bf16, with products of 8 bits.
struct TrainType {
  DType* type;
  bool* fp8;
};

// Where a key's value lives in a RunSpec. The pointer's type is the type of the key.
using Field =
    std::variant<int64_t*, uint64_t*, double*, bool*, std::string*, DType*, TrainType, Betas,
                 std::vector<int64_t>*, std::vector<DataPart>*, std::vector<ValidSet>*,
                 ModelFamily*, NormKind*, MlpKind*, PositionKind*, AttentionBias*, RopeScaling*,
                 GradReduce*, ContextKind*, PipelineChoice*, TrainDevice*, CudaGraph*, Fp8Recipe*,
                 OptimizerKind*, LrSchedule*, DecayOn*>;

// Bounds of a number. An open bound is itself refused. NaN is in no range.
struct Range {
  double min = 0;
  double max = 1e12;
  bool open_min = false;
  bool open_max = false;
  [[nodiscard]] bool contains(double value) const;
  [[nodiscard]] std::string describe() const;  // "from 1 to 1000000000000"
};

struct Key {
  std::string_view section;  // "model", or "model.rope_scaling" for a nested table
  std::string_view name;
  Field (*field)(RunSpec&);
  Range range = {};
  std::span<const std::string_view> choices = {};  // of an enum; empty: any text
  bool required = false;                           // in a model without preset and hf
  Thousand k = Thousand::kDecimal;                 // what "8k" stands for
};

std::span<const Key> run_keys();
const Key* find_key(std::string_view section, std::string_view name);  // nullptr: unknown
bool is_section(std::string_view section);
// Keys that are no part of the run: cluster.name says which cluster plan, simulate and search price
// it on where no --cluster does. A text; whoever trains passes over it.
bool is_flag_default(std::string_view section, std::string_view name);

// Everything that may stand directly in `section` ("" is the top level): keys and nested tables.
std::vector<std::string_view> names_in(std::string_view section);

std::string join_path(std::string_view section, std::string_view name);  // "model.layers"

}  // namespace tessera

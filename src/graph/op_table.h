// One row per op: whatever differs between ops is said here and nowhere else. Type inference,
// differentiation, storage, lowering, recomputation and the cost of an instruction read the rows;
// kernels are found by a table of the runtime (runtime/dispatch.h), which this folder cannot know.
//
// The rows lie in graph/ops/, a file for each family, with the functions that they name beside
// them. ops/op_table.cc puts them in the order of OpKind at compile time: an op without a row, with
// two rows, or with a row that leaves out a field without a default does not compile.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/op_class.h"
#include "graph/op_text.h"
#include "graph/rows_by_op.h"

namespace tessera {

class Operands;
class Gradients;
struct KernelSizes;

// Types of the outputs: element types and shapes; placements too where the row has no rules.
using TypeRule = std::vector<TensorType>(const Operands& operands);

// Adds the nodes that give the gradients of a node's inputs, from that of its first output, `dy`.
using GradientRule = void(Gradients& gradients, const Node& node, ValueId dy);
class Gradient {
 public:
  enum class Needs : uint8_t {
    kOutput,  // a node whose output has no gradient is passed over
    kNothing  // losses, where gradients begin; ops whose outputs have a gradient each
  };
  constexpr Gradient(GradientRule* adds,  // implicit: a rule with the usual need
                     Needs needs = Needs::kOutput)
      : rule_(adds), needs_(needs) {}
  [[nodiscard]] constexpr GradientRule* rule() const { return rule_; }
  [[nodiscard]] constexpr bool needs_output() const { return needs_ == Needs::kOutput; }

 private:
  GradientRule* rule_;
  Needs needs_;
};

// Where outputs live.
enum class Place : uint8_t {
  kNew,         // memory of their own, or that of an input which nobody reads any more
  kElsewhere,   // decided before: what is fed, stored, packed or joined
  kCast,        // as its collective needs
  kWeights,     // windows of the first input, as the bucket lays out its weights
  kChunks,      // windows of the first input, one after the other
  kLoss,        // the loss of the step
  kMetrics,     // the metrics of the step
  kGradient,    // the gradient of the node's bucket
  kFirstInput,  // the first input is updated
};
// The output may take the memory of the input, if the node has so many and nobody reads it later.
struct Overwrite {
  int8_t output = 0, input = 0;
};
class StorageRule {
 public:
  constexpr StorageRule(Place place)  // implicit: most rules are no more
      : place_(place) {}
  // In order of preference.
  template <std::same_as<Overwrite>... Overwrites>
  static constexpr StorageRule over(Overwrites... overwrites) {
    StorageRule rule(Place::kNew);
    rule.overwrites_ = {overwrites...};
    rule.size_ = sizeof...(overwrites);
    return rule;
  }
  [[nodiscard]] constexpr Place place() const { return place_; }
  [[nodiscard]] constexpr std::span<const Overwrite> overwrites() const {
    return std::span(overwrites_).first(size_);
  }

 private:
  Place place_;
  std::array<Overwrite, 2> overwrites_{};
  size_t size_ = 0;
};
// The first output over one of these inputs.
template <std::same_as<int>... Inputs>
constexpr StorageRule over_input(Inputs... inputs) {
  return StorageRule::over(Overwrite{0, static_cast<int8_t>(inputs)}...);
}

// Whether the first output may be added to a value that exists already (a node's last input).
enum class Adds : uint8_t {
  kNever,
  kToOutput,  // the kernel adds to what its output holds
  kInKernel   // the kernel takes the value as one more input
};

// Which dimensions a matrix product has.
enum class Product : uint8_t {
  kNone,
  kRows,           // [T, K] x weights -> [T, N]
  kWeights,        // [T, N] x [T, K] -> [N, K]
  kExpertRows,     // kRows, one expert after the other
  kExpertWeights,  // kWeights, one expert after the other
};
// Which bytes an instruction moves.
enum class BytesMoved : uint8_t {
  kOperands,       // every operand once
  kLookedUp,       // of the second input, a table, as many rows as the output has
  kOneSumEach,     // of every input one number is written
  kTurnedColumns,  // in place, only the columns of the heads
  kIntoOutput,     // every operand, and the output is read too
  kOptimizer,      // gradients, and the state that is updated
};
// Products of queries, keys and values in attention; backward the scores are computed again.
constexpr int kForwardProducts = 2;
constexpr int kBackwardProducts = 5;
struct OpCost {
  Product product = Product::kNone;
  int attention_products = 0;
  BytesMoved bytes = BytesMoved::kOperands;
  size_t added_output = 0;   // the output that an accumulating instruction reads
  bool only_filled = false;  // of the rows that there is room for only those in use are computed
};

// What lowering makes of a node.
enum class Lowered : uint8_t {
  kKernel,     // one instruction
  kNothing,    // it names memory
  kPack,       // zeros between the weights of a bucket
  kCast,       // communication, or a copy, or nothing
  kUpdate,     // the optimizer step, bucket by bucket
  kNotInGraph  // lowering itself adds such instructions
};
// The numbers that a kernel needs about this rank's part of its operands.
enum class KernelNumbers : uint8_t {
  kNone,
  kTokens,                // which tokens
  kHeads,                 // how many heads
  kAttention,             // which heads, and which tokens of queries and keys
  kVocabularyOfTable,     // which rows of the vocabulary: as many as the second input has rows,
  kVocabularyOfGradient,  // as the output has rows,
  kVocabularyOfLogits     // as the first input has columns
};
// Buffers that only the instruction has.
enum class ExtraOperands : uint8_t {
  kNone,
  kRopeTables,       // cosines and sines, as inputs
  kDocumentStarts,   // where the document of each query begins, as the last input, if any
  kRouterLoad,       // the layer's choices by expert, as an output
  kWithoutLastInput  // the node has it for its gradient
};
// Bytes of scratch. Null: none.
using ScratchRule = int64_t(const KernelSizes& sizes);
struct KernelNeeds {
  Lowered lowered = Lowered::kKernel;
  KernelNumbers numbers = KernelNumbers::kNone;
  ExtraOperands extra = ExtraOperands::kNone;
  ScratchRule* cpu_scratch = nullptr;
  ScratchRule* gpu_scratch = nullptr;
};

// Which cheap values of the forward pass may be computed again (train.recompute).
enum class CheapAs : uint8_t {
  kNothing,
  kNorm,
  kActivation,
  kAttention,
  kLocalCast  // where no other rank is asked
};

struct OpRow {
  Given<OpKind> kind;
  Given<const char*> name;
  Signature signature;
  Given<TypeRule*> types;
  RuleTexts rules;
  Gradient gradient;
  StorageRule storage;
  Given<Adds> adds;
  Given<OpClass> op_class;
  OpCost cost{};
  KernelNeeds kernel{};
  CheapAs cheap = CheapAs::kNothing;
};

const OpRow& row_of(OpKind op);

}  // namespace tessera

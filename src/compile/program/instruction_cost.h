// What an instruction costs a rank: arithmetic and memory traffic, from the Program alone. The
// larger of flops over the rate of products and bytes over the memory's bandwidth is the least time
// it can take.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "compile/program/program.h"

namespace tessera {

enum class OpClass : uint8_t {
  kProducts,  // matrix products, and what is done to their results on the way
  kAttention,
  kNorms,
  kActivations,  // SwiGLU, GELU, RoPE, biases, additions, dropout: element by element
  kLoss,
  kOptimizer,  // and the norm of the gradient
  kEmbedding,  // and learned positions
  kRouting,    // of experts: choice, dispatch, combination, balance
  kMovement,   // copies, zeros, columns
  kCommunication,
};
constexpr int kNumOpClasses = 10;
constexpr std::array<OpClass, kNumOpClasses> kAllOpClasses = {
    OpClass::kProducts, OpClass::kAttention,    OpClass::kNorms,     OpClass::kActivations,
    OpClass::kLoss,     OpClass::kOptimizer,    OpClass::kEmbedding, OpClass::kRouting,
    OpClass::kMovement, OpClass::kCommunication};
std::string_view name_of(OpClass op_class);  // "products", …
OpClass class_of(OpKind op);

struct InstructionCost {
  OpClass op_class = OpClass::kMovement;
  int64_t flops = 0;  // of products and of attention; whatever else is bound by its bytes
  // Every operand once, and only the part of it that is touched: a table's rows that are looked up.
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
};

// Products of experts count every row they have room for: how many are filled is up to the data.
InstructionCost cost_of(const Program& program, const Instruction& instruction);

}  // namespace tessera

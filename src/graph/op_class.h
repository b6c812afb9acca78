// What kind of work an op is, by which time is measured and reported.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "graph/op.h"

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

}  // namespace tessera

// A small product of matrices on ranks that share it, as the compiler would place it: the graph
// says what every rank holds, which casts communicate, and what the backward pass adds; the numbers
// are worked out rank by rank. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tessera {

struct SmallMatrix {
  int64_t rows = 0, cols = 0;
  std::vector<double> values;  // row after row
  [[nodiscard]] double at(int64_t row, int64_t col) const {
    return values[static_cast<size_t>(row * cols + col)];
  }
};

enum class ProductSplit : uint8_t {
  kColumn,  // A B, B by columns
  kRow,     // A B, B by rows
  kPair,    // gelu(A B) B2, B by columns and B2 by rows
  kHeads,   // attention: B makes queries, keys and values of heads, B2 takes their outputs back
};

struct ProductRequest {
  ProductSplit split = ProductSplit::kColumn;
  int ranks = 2;
  int64_t m = 4, k = 8, n = 8;  // A is m x k, B is k x n
  int64_t heads = 2;            // of kHeads: n is shared out among them
};

// A matrix as the page writes it (weights are stored the other way round), and what each rank
// holds.
struct HeldMatrix {
  std::string name;  // "a", "b", "hidden", "b2", "part", "result"
  TensorType type;   // as the graph infers it
  SmallMatrix whole = {};
  bool partial = false;  // ranks hold partial sums
  struct Part {
    int64_t first_row = 0, end_row = 0, first_col = 0, end_col = 0;
    SmallMatrix values = {};
  };
  std::vector<Part> parts = {};  // by rank
};

struct ProductCast {
  CastKind kind = CastKind::kAllReduce;
  std::string value;     // what is cast: "part"
  int64_t elements = 0;  // of the whole value
};

struct SplitProductResult {
  std::vector<HeldMatrix> matrices;            // in the order of the forward pass
  SmallMatrix unsplit;                         // the result of one rank alone
  std::vector<ProductCast> forward, backward;  // those that communicate
  [[nodiscard]] const HeldMatrix& matrix(std::string_view name) const;
};

// Throws ConfigError where a dimension that is split does not divide.
SplitProductResult split_product(const ProductRequest& request);

}  // namespace tessera

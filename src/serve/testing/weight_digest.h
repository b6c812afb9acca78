// For tests: what weights ranks have, whatever the mesh that splits them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace tessera::serve::testing {

// Rows and columns of a logical tensor that one rank has, and the sum of a hash of each element's
// place and bits, so that those of parts add up to that of the whole.
struct HeldPart {
  std::string tensor;
  std::vector<int64_t> rectangle;  // first row, rows, first column, columns
  int64_t elements = 0;
  uint64_t sum = 0;
};
std::vector<HeldPart> held_parts(const Executor& executor, const StepGraph& step);

// By logical tensor. Expects that ranks which hold the same part hold the same bits, and that all
// together have every element.
using WeightDigest = std::map<std::string, uint64_t>;
WeightDigest whole_digest(const std::vector<std::vector<HeldPart>>& ranks,
                          const ParameterLayout& layout);

}  // namespace tessera::serve::testing

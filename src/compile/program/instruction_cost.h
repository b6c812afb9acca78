// What an instruction costs a rank: arithmetic and memory traffic, from the Program alone. The
// larger of flops over the rate of products and bytes over the memory's bandwidth is the least time
// it can take.
#pragma once

#include <cstdint>

#include "compile/program/program.h"
#include "graph/op_class.h"

namespace tessera {

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

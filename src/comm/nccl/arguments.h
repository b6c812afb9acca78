// What is wrong with a call, as far as one rank can tell.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.h"

namespace tessera::nccl {

// One buffer of a call as rank `rank` of `size` uses it; 0 bytes when it does not.
struct BufferUse {
  const void* data = nullptr;
  int64_t size_bytes = 0;
};
BufferUse input_of(const CollectiveCall& call, int rank, int size);
BufferUse output_of(const CollectiveCall& call, int rank, int size);

// "called with root 7: roots are 0 to 3", to follow the name of the call; empty when all is well.
std::string argument_problem(const CollectiveCall& call, int rank, int size);

}  // namespace tessera::nccl

// Hands one call to NCCL.
#pragma once

#include "comm/communicator.h"
#include "comm/nccl/gpu_library.h"

namespace tessera::nccl {

struct Launch {
  const Gpu& gpu;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int rank = 0;
  int size = 1;
};

// Copies that the stream does by itself, to be called before the NCCL group begins: a rank's own
// part of the data, and the input of an all_to_all in place, which NCCL would overwrite. Returns
// that copy, to be freed on the stream after the call, or null.
void* issue_copies(const Launch& launch, const CollectiveCall& call);

// What goes between ranks; inside an NCCL group. `in_copy` is what issue_copies returned.
void issue(const Launch& launch, const CollectiveCall& call, const void* in_copy);

}  // namespace tessera::nccl

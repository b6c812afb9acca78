// Ranks that have a GPU each, exchanging device memory through NCCL.
//
// A world of the same ranks on the host side (shm, MPI, threads) carries what must not hang: the
// ranks find each other through it, compare their calls through it before any data moves, and learn
// of each other's failures through it. So a mismatch, a missing rank or an abort is reported as on
// the other backends, and NCCL is only started when every rank has called.
//
// What differs from the other backends:
// - Buffers are device memory of this rank's GPU; host memory is refused.
// - NCCL chooses the algorithm, and sums in its own order: CollectiveCall::algorithm is not used,
//   and results repeat on the same GPUs and links, not across them. 16-bit types are rounded
//   between steps, and a mean divides every contribution before it adds.
// - Collectives of one group run one after the other in the order of their start; messages
//   (send, receive) that follow each other run together.
// - Bytes are counted by definition, because NCCL does not tell: see comm/nccl/traffic.h.
// - One thread at a time uses the world, its communicators and their Work; abort() is for any.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "comm/world.h"

namespace tessera {

// Memory of one GPU, freed with this object. Copies wait until they are done.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  [[nodiscard]] virtual void* data() const = 0;
  [[nodiscard]] virtual int64_t size_bytes() const = 0;
  virtual void upload(const void* from, int64_t size_bytes) = 0;
  virtual void download(void* to, int64_t size_bytes) const = 0;
};

struct NcclWorldOptions {
  CommWorld& host;  // the same ranks on the host side; must outlive the NCCL world
  int device = 0;   // CUDA's number of this rank's GPU; no two ranks may share one
  // A cudaStream_t: what was queued there before a call is done before the call reads its input.
  // Null: the default stream.
  void* input_stream = nullptr;
  // Compare every k-th collective between the ranks; 0: none. A mismatch in one that is not
  // compared ends in a timeout or in wrong numbers. Messages and barriers always meet on the host.
  int check_every = 1;
  std::chrono::milliseconds abort_patience{5'000};  // how long NCCL may take to stop

  void validate() const;
};

class NcclWorld : public CommWorld {
 public:
  // Zeroed. Throws Error when the GPU refuses.
  virtual std::unique_ptr<DeviceMemory> allocate_device(const std::string& name,
                                                        int64_t size_bytes) = 0;
};

// Why there can be no NCCL world here; empty when there can.
std::string nccl_obstacle();

// Throws Error where there is an obstacle or no such device. Waits for nobody.
std::unique_ptr<NcclWorld> make_nccl_world(const NcclWorldOptions& options);

}  // namespace tessera

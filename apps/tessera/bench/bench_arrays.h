// Where the two arrays of one rank are: in memory that peers reach without a copy, or on its GPU.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/bench_case.h"
#include "comm/nccl/nccl_world.h"
#include "comm/world.h"

namespace tessera {

class RankArrays {
 public:
  virtual ~RankArrays() = default;
  // What calls take.
  [[nodiscard]] virtual BenchArrays arrays() const = 0;
  // What this process reads and writes; upload and download carry both arrays over.
  [[nodiscard]] virtual BenchArrays on_host() const = 0;
  virtual void upload(int64_t size_bytes) = 0;
  virtual void download(int64_t size_bytes) = 0;
  // Zeros, as a rank that computes would write its input before the call.
  virtual void rewrite_input(int64_t size_bytes) = 0;
};

std::unique_ptr<RankArrays> make_host_arrays(CommWorld& world, int64_t size_bytes);
std::unique_ptr<RankArrays> make_device_arrays(NcclWorld& world, int64_t size_bytes);

}  // namespace tessera

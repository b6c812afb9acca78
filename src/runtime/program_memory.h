// Where the buffers of one Program are in the memory of its rank (runtime/rank_memory.h).
#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "compile/program/program.h"
#include "runtime/device/rank_device.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tessera {

// Bytes of a buffer, and where on the host they go.
struct BufferCopy {
  BufferId buffer = kNoBuffer;
  int64_t first_byte = 0;
  int64_t size_bytes = 0;
  std::byte* to = nullptr;
};

class ProgramMemory {
 public:
  // By arena: `shared` belongs to the rank, where it is not null; `own` to this Program alone.
  struct Arenas {
    std::array<HostArena, kNumArenas> own;
    std::array<const HostArena*, kNumArenas> shared{};
  };
  // `device` and the shared arenas must outlive it.
  ProgramMemory(RankDevice& device, const Program& program, Arenas arenas);

  // One for each buffer of the Program.
  [[nodiscard]] std::span<const Tensor> tensors() const { return tensors_; }
  [[nodiscard]] const Tensor& tensor(BufferId id) const {
    return tensors_[static_cast<size_t>(id)];
  }
  [[nodiscard]] int64_t arena_bytes(ArenaKind arena) const { return at(arena).size_bytes(); }

  // Between steps, and in a probe.
  [[nodiscard]] HostView view(BufferId id) const { return device_.view(tensor(id)); }
  void write(BufferId id, const HostView& contents) { device_.write(tensor(id), contents); }
  void copy_out(std::span<const BufferCopy> copies) const;
  void edit(BufferId id, const std::function<void(const Tensor& contents)>& change);

 private:
  [[nodiscard]] const HostArena& at(ArenaKind arena) const;

  RankDevice& device_;
  Arenas arenas_;
  std::vector<Tensor> tensors_;
};

}  // namespace tessera

#include "runtime/program_memory.h"

#include <algorithm>

namespace tessera {

ProgramMemory::ProgramMemory(RankDevice& device, const Program& program, Arenas arenas)
    : device_(device), arenas_(std::move(arenas)) {
  for (const Buffer& b : program.buffers) {
    Tensor tensor;
    tensor.data = at(b.arena).data() + b.offset;
    tensor.dtype = b.dtype;
    tensor.num_dims = static_cast<int>(b.shape.size());
    std::copy(b.shape.begin(), b.shape.end(), tensor.dims.begin());
    tensors_.push_back(tensor);
  }
}

const HostArena& ProgramMemory::at(ArenaKind arena) const {
  const auto i = static_cast<size_t>(arena);
  return arenas_.shared[i] != nullptr ? *arenas_.shared[i] : arenas_.own[i];
}

void ProgramMemory::edit(BufferId id, const std::function<void(const Tensor&)>& change) {
  const HostView host = view(id);
  change(host.tensor);
  write(id, host);
}

}  // namespace tessera

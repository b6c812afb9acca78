#include "runtime/program_memory.h"

#include <algorithm>

#include "base/error.h"

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

void ProgramMemory::copy_out(std::span<const BufferCopy> copies) const {
  std::vector<CopyOut> all;
  for (const BufferCopy& copy : copies) {
    const Tensor& from = tensor(copy.buffer);
    TESSERA_CHECK(copy.first_byte >= 0 && copy.size_bytes >= 0 &&
                      copy.first_byte + copy.size_bytes <= from.bytes(),
                  "bytes {} to {} of a buffer of {}", copy.first_byte,
                  copy.first_byte + copy.size_bytes, from.bytes());
    all.push_back(
        {static_cast<const std::byte*>(from.data) + copy.first_byte, copy.to, copy.size_bytes});
  }
  device_.copy_out(all);
}

void ProgramMemory::edit(BufferId id, const std::function<void(const Tensor&)>& change) {
  const HostView host = view(id);
  change(host.tensor);
  write(id, host);
}

}  // namespace tessera

#include "compile/program/memory_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/rounding.h"

namespace tessera {
namespace {

constexpr int64_t kAlignBytes = 64;  // storages begin at multiples of it

using Range = std::pair<int64_t, int64_t>;  // from, to

int64_t covered_bytes(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  int64_t covered = 0;
  int64_t end = 0;
  for (const auto& [from, to] : ranges) {
    covered += std::max<int64_t>(0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return covered;
}

}  // namespace

std::vector<BufferId> gradient_buffers_among_activations(const Program& program) {
  std::vector<BufferId> found;
  const auto add = [&](BufferId id) {
    if (id != kNoBuffer && program.buffer(id).arena == ArenaKind::kActivations) found.push_back(id);
  };
  for (const BucketBuffers& bucket : program.buckets) add(bucket.gradient);
  if (found.empty()) return found;
  // What a rank keeps may be a part of the gradient that it has summed.
  for (const Instruction& instruction : program.instructions) {
    if (instruction.tag.pass != Pass::kReduce) continue;
    for (const BufferId id : instruction.inputs) add(id);
  }
  return found;
}

int64_t gradients_among_activations(const Program& program) {
  std::vector<Range> ranges;
  for (const BufferId id : gradient_buffers_among_activations(program)) {
    const Buffer& buffer = program.buffer(id);
    ranges.emplace_back(buffer.offset, round_up(buffer.offset + buffer.bytes(), kAlignBytes));
  }
  return covered_bytes(std::move(ranges));
}

std::array<int64_t, kNumArenas> memory_parts(const Program& program,
                                             std::array<int64_t, kNumArenas> arenas) {
  const int64_t bytes = gradients_among_activations(program);
  arenas[static_cast<size_t>(ArenaKind::kActivations)] -= bytes;
  arenas[static_cast<size_t>(ArenaKind::kGradients)] += bytes;
  return arenas;
}

std::array<int64_t, kNumArenas> memory_parts(const Program& program) {
  return memory_parts(program, program.arena_bytes);
}

}  // namespace tessera

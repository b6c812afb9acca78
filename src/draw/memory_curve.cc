#include "draw/memory_curve.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "compile/program/memory_parts.h"

namespace tessera {
namespace {

// The bytes of one arena that are covered by at least one range: buffers may lie inside others.
class Cover {
 public:
  explicit Cover(std::vector<int64_t> edges) : edges_(std::move(edges)) {
    std::sort(edges_.begin(), edges_.end());
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    counts_.assign(edges_.size(), 0);
  }

  void add(int64_t begin, int64_t end, int by) {
    auto at =
        static_cast<size_t>(std::lower_bound(edges_.begin(), edges_.end(), begin) - edges_.begin());
    for (; edges_[at] < end; ++at) {
      const bool before = counts_[at] > 0;
      counts_[at] += by;
      const bool after = counts_[at] > 0;
      if (before != after) covered_ += (after ? 1 : -1) * (edges_[at + 1] - edges_[at]);
    }
  }

  [[nodiscard]] int64_t covered() const { return covered_; }

 private:
  std::vector<int64_t> edges_;
  std::vector<int> counts_;  // from an edge to the next
  int64_t covered_ = 0;
};

bool is_counted(const Buffer& buffer) {
  return buffer.arena == ArenaKind::kActivations || buffer.arena == ArenaKind::kCommunication;
}

}  // namespace

std::vector<BufferLife> buffer_lives(const RankTimeline& rank) {
  const Program& program = *rank.program;
  std::vector<BufferLife> lives;
  std::map<BufferId, size_t> current;
  const auto touch = [&](BufferId id, size_t i, bool is_new) {
    if (id == kNoBuffer || !is_counted(program.buffer(id))) return;
    const InstructionTime& time = rank.times[i];
    const auto [found, first] = current.try_emplace(id, lives.size());
    if (first || is_new) {
      found->second = lives.size();
      lives.push_back({id, i, i, time.begin, time.end});
    } else {
      BufferLife& life = lives[found->second];
      if (time.end < life.end) return;
      life.end = time.end;
      life.last = i;
    }
  };
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (rank.times[i].end < 0) continue;
    for (const BufferId id : instruction.inputs) touch(id, i, false);
    for (const BufferId id : instruction.outputs) {
      const auto& inputs = instruction.inputs;
      const bool read = std::find(inputs.begin(), inputs.end(), id) != inputs.end();
      touch(id, i, !read && !instruction.accumulate);
    }
  }
  return lives;
}

std::vector<MemoryPoint> memory_curve(const RankTimeline& rank) {
  const Program& program = *rank.program;
  struct Change {
    double time;
    int by;
    BufferId buffer;
  };
  // What the arenas of activations and of communication hold, and the first one of gradients.
  enum Part : size_t { kActivations, kCommunication, kGradients, kNumParts };
  const std::vector<BufferId> held = gradient_buffers_among_activations(program);
  const std::set<BufferId> gradients(held.begin(), held.end());
  const auto parts_of = [&](BufferId id) -> std::vector<Part> {
    if (program.buffer(id).arena == ArenaKind::kCommunication) return {kCommunication};
    if (gradients.contains(id)) return {kActivations, kGradients};
    return {kActivations};
  };
  std::vector<Change> changes;
  std::array<std::vector<int64_t>, kNumParts> edges;
  for (const BufferLife& life : buffer_lives(rank)) {
    const Buffer& buffer = program.buffer(life.buffer);
    changes.push_back({life.begin, +1, life.buffer});
    changes.push_back({life.end, -1, life.buffer});
    for (const Part part : parts_of(life.buffer)) {
      edges[part].push_back(buffer.offset);
      edges[part].push_back(buffer.offset + buffer.bytes());
    }
  }
  // What ends makes room for what begins at the same time.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.time, a.by, a.buffer) < std::tie(b.time, b.by, b.buffer);
  });
  std::array<Cover, kNumParts> covers = {Cover(std::move(edges[kActivations])),
                                         Cover(std::move(edges[kCommunication])),
                                         Cover(std::move(edges[kGradients]))};
  std::vector<MemoryPoint> points;
  for (size_t i = 0; i < changes.size(); ++i) {
    const Buffer& buffer = program.buffer(changes[i].buffer);
    for (const Part part : parts_of(changes[i].buffer)) {
      covers[part].add(buffer.offset, buffer.offset + buffer.bytes(), changes[i].by);
    }
    if (i + 1 < changes.size() && changes[i + 1].time == changes[i].time) continue;
    const int64_t of_gradients = covers[kGradients].covered();
    const MemoryPoint point{changes[i].time, covers[kActivations].covered() - of_gradients,
                            of_gradients, covers[kCommunication].covered()};
    if (points.empty() || !points.back().holds_as(point)) points.push_back(point);
  }
  return points;
}

}  // namespace tessera

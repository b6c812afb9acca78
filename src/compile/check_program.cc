#include <map>
#include <set>

#include "base/error.h"
#include "compile/step.h"

namespace tessera {
namespace {

std::string describe(const Program& program, size_t index) {
  const Instruction& i = program.instructions[index];
  return fmt::format("instruction {} of rank {} ({} '{}')", index, program.rank, name_of(i.op), i.name);
}

// Byte ranges of one arena that have been written so far.
class Written {
 public:
  void add(int64_t begin, int64_t end) {
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second >= begin) {
      --it;
      begin = it->first;
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    while (it != ranges_.end() && it->first <= end) {
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    ranges_[begin] = end;
  }
  [[nodiscard]] bool covers(int64_t begin, int64_t end) const {
    auto it = ranges_.upper_bound(begin);
    if (it == ranges_.begin()) return begin == end;
    return std::prev(it)->second >= end;
  }

 private:
  std::map<int64_t, int64_t> ranges_;
};

bool is_state(ArenaKind arena) {
  return arena == ArenaKind::kParameters || arena == ArenaKind::kOptimizer ||
         arena == ArenaKind::kWorkspace;
}

}  // namespace

void check_program(const Program& program) {
  std::array<Written, kNumArenas> written;
  const auto mark = [&](BufferId id) {
    const Buffer& b = program.buffer(id);
    written[static_cast<size_t>(b.arena)].add(b.offset, b.offset + b.bytes());
  };
  if (program.tokens != kNoBuffer) mark(program.tokens);
  if (program.labels != kNoBuffer) mark(program.labels);
  // Padding of persistent gradients is zero from the start.
  for (const BucketBuffers& bucket : program.buckets) {
    if (bucket.gradient != kNoBuffer) mark(bucket.gradient);
  }
  std::set<int> signalled;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (const int event : instruction.waits) {
      TESSERA_CHECK(signalled.contains(event), "{} waits for event {} that nobody signals before it",
                    describe(program, i), event);
    }
    for (const BufferId id : instruction.inputs) {
      const Buffer& b = program.buffer(id);
      const auto arena = static_cast<size_t>(b.arena);
      TESSERA_CHECK(b.offset >= 0 && b.offset + b.bytes() <= program.arena_bytes[arena],
                    "{} reads '{}' outside its arena", describe(program, i), b.name);
      const bool gradient = b.arena == ArenaKind::kGradients && instruction.op == OpKind::kCast;
      TESSERA_CHECK(is_state(b.arena) || gradient ||
                        written[arena].covers(b.offset, b.offset + b.bytes()),
                    "{} reads '{}' before it is written", describe(program, i), b.name);
    }
    for (const BufferId id : instruction.outputs) {
      const Buffer& b = program.buffer(id);
      TESSERA_CHECK(b.offset >= 0 && b.offset + b.bytes() <=
                                         program.arena_bytes[static_cast<size_t>(b.arena)],
                    "{} writes '{}' outside its arena", describe(program, i), b.name);
      mark(id);
    }
    if (instruction.signal >= 0) {
      TESSERA_CHECK(signalled.insert(instruction.signal).second, "event {} is signalled twice",
                    instruction.signal);
    }
  }
}

void check_collectives(const std::vector<Program>& programs) {
  using Group = std::pair<std::string, std::vector<int>>;  // name and members
  std::map<Group, std::vector<std::pair<int, std::vector<std::string>>>> calls;  // rank, its calls
  for (const Program& program : programs) {
    std::map<AxisSet, std::vector<std::string>> mine;
    for (const Instruction& i : program.instructions) {
      if (i.stream != StreamKind::kComm) continue;
      const Buffer& in = program.buffer(i.inputs[0]);
      mine[i.group].push_back(fmt::format("{}({}, {}) '{}'", collective_name(i.collective),
                                          name_of(in.dtype), numel(in.shape), i.name));
    }
    for (auto& [axes, list] : mine) {
      calls[{name_of(axes), program.mesh.peers(program.rank, axes)}].emplace_back(program.rank,
                                                                                   std::move(list));
    }
  }
  for (const auto& [group, lists] : calls) {
    TESSERA_CHECK(lists.size() == group.second.size(), "only {} of {} ranks use group {}",
                  lists.size(), group.second.size(), group.first);
    for (const auto& [rank, list] : lists) {
      const auto& [first, expected] = lists.front();
      TESSERA_CHECK(list.size() == expected.size(),
                    "group {}: rank {} makes {} calls but rank {} makes {}", group.first, rank,
                    list.size(), first, expected.size());
      for (size_t i = 0; i < list.size(); ++i) {
        TESSERA_CHECK(list[i] == expected[i], "group {}: call {} of rank {} is {} but of rank {} {}",
                      group.first, i, rank, list[i], first, expected[i]);
      }
    }
  }
}

}  // namespace tessera

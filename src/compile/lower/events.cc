#include "compile/lower/events.h"

#include <algorithm>
#include <map>

namespace tessera {
namespace {

// Per stream, the newest instruction that is known to be done; -1: none.
using Clock = std::array<int, kNumStreams>;

class EventPass {
 public:
  EventPass(Program& program, const std::vector<Region>& region_of,
            const std::vector<InstructionPlace>& places, bool overlap)
      : program_(program), region_of_(region_of), places_(places), overlap_(overlap) {
    for (Clock& clock : seen_) clock.fill(-1);
    last_.fill(-1);
    last_transient_.fill(-1);
    transient_before_.fill(-1);
    transient_item_.fill(-1);
  }

  void run() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) visit(static_cast<int>(i));
  }

 private:
  // Who touched a region last, by stream.
  struct Uses {
    Clock writer{-1, -1, -1, -1};
    Clock reader{-1, -1, -1, -1};
  };

  static size_t index(StreamKind stream) { return static_cast<size_t>(stream); }

  void visit(int i) {
    Instruction& instruction = program_.instructions[static_cast<size_t>(i)];
    const size_t mine = index(instruction.stream);
    Clock needed;
    needed.fill(-1);
    const auto need = [&](const Clock& uses) {
      for (size_t s = 0; s < kNumStreams; ++s) needed[s] = std::max(needed[s], uses[s]);
    };
    for (const BufferId id : instruction.inputs) need(uses(id).writer);
    for (const BufferId id : instruction.outputs) {
      need(uses(id).writer);
      need(uses(id).reader);
    }
    if (has_collectives(instruction.stream)) {
      needed[index(StreamKind::kCompute)] = last_[index(StreamKind::kCompute)];
    }
    if (instruction.stream == StreamKind::kCompute) {
      wait_between_parts(i, needed);
      for (const StreamKind stream : kCollectiveStreams) {
        if (!overlap_) needed[index(stream)] = last_[index(stream)];
      }
    }
    needed[mine] = -1;
    add_waits(instruction, needed);
    for (const BufferId id : instruction.inputs) uses(id).reader[mine] = i;
    for (const BufferId id : instruction.outputs) uses(id).writer[mine] = i;
    note_transient(instruction, i);
    last_[mine] = i;
    known_at_.push_back(seen_[mine]);
    known_at_.back()[mine] = i;
  }

  // Memory of one part is used again by the next.
  void wait_between_parts(int i, Clock& needed) {
    const int item = places_[static_cast<size_t>(i)].item;
    if (item == item_ || item < 0) return;
    item_ = item;
    for (const StreamKind stream : kCollectiveStreams) {
      const size_t s = index(stream);
      needed[s] = std::max(needed[s],
                           transient_item_[s] == item ? transient_before_[s] : last_transient_[s]);
    }
  }

  void note_transient(const Instruction& instruction, int i) {
    if (!has_collectives(instruction.stream)) return;
    const auto transient = [&](BufferId id) {
      return !region_of_[static_cast<size_t>(id)].persistent;
    };
    if (std::any_of(instruction.inputs.begin(), instruction.inputs.end(), transient) ||
        std::any_of(instruction.outputs.begin(), instruction.outputs.end(), transient)) {
      const int item = places_[static_cast<size_t>(i)].item;
      const size_t s = index(instruction.stream);
      if (item != transient_item_[s]) transient_before_[s] = last_transient_[s];
      transient_item_[s] = item;
      last_transient_[s] = i;
    }
  }

  // A stream is done in order, so the newest of each is enough, and what that one had waited for is
  // done too: newest first.
  void add_waits(Instruction& instruction, Clock& needed) {
    Clock& seen = seen_[index(instruction.stream)];
    while (true) {
      size_t newest = 0;
      for (size_t s = 1; s < kNumStreams; ++s) {
        if (needed[s] > needed[newest]) newest = s;
      }
      const int other = needed[newest];
      if (other < 0) return;
      needed[newest] = -1;
      if (other <= seen[newest]) continue;
      instruction.waits.push_back(event_of(other));
      const Clock& theirs = known_at_[static_cast<size_t>(other)];
      for (size_t s = 0; s < kNumStreams; ++s) seen[s] = std::max(seen[s], theirs[s]);
    }
  }

  Uses& uses(BufferId id) { return uses_[region_of_[static_cast<size_t>(id)]]; }

  int event_of(int index) {
    Instruction& instruction = program_.instructions[static_cast<size_t>(index)];
    if (instruction.signal < 0) instruction.signal = program_.num_events++;
    return instruction.signal;
  }

  Program& program_;
  const std::vector<Region>& region_of_;
  const std::vector<InstructionPlace>& places_;
  bool overlap_;
  std::map<Region, Uses> uses_;
  std::array<Clock, kNumStreams> seen_{};  // by the stream that has waited
  std::vector<Clock> known_at_;            // by instruction: what is done when it is done
  Clock last_{};
  // By stream, collectives in memory that is used again: the newest one, its item, the newest of
  // earlier items.
  Clock last_transient_{};
  Clock transient_item_{};
  Clock transient_before_{};
  int item_ = -1;
};

}  // namespace

void add_events(Program& program, const std::vector<Region>& region_of,
                const std::vector<InstructionPlace>& places, bool overlap) {
  EventPass(program, region_of, places, overlap).run();
}

}  // namespace tessera

#include "compile/events.h"

#include <algorithm>
#include <map>

namespace tessera {
namespace {

class EventPass {
 public:
  EventPass(Program& program, const std::vector<int>& storage_of)
      : program_(program), storage_of_(storage_of) {}

  void run() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      Instruction& instruction = program_.instructions[i];
      if (instruction.stream == StreamKind::kComm) {
        visit_collective(instruction, static_cast<int>(i));
      } else {
        visit_kernel(instruction, static_cast<int>(i));
      }
    }
  }

 private:
  struct InFlight {
    int writer = -1;
    int reader = -1;
  };

  void visit_collective(Instruction& instruction, int index) {
    if (last_kernel_ > kernel_seen_by_comm_) {
      instruction.waits.push_back(event_of(last_kernel_));
      kernel_seen_by_comm_ = last_kernel_;
    }
    for (const BufferId id : instruction.inputs) comm_use(id).reader = index;
    for (const BufferId id : instruction.outputs) comm_use(id).writer = index;
    last_collective_ = index;
  }

  void visit_kernel(Instruction& instruction, int index) {
    int needed = -1;
    for (const BufferId id : instruction.inputs) needed = std::max(needed, comm_use(id).writer);
    for (const BufferId id : instruction.outputs) {
      needed = std::max({needed, comm_use(id).writer, comm_use(id).reader});
    }
    if (instruction.micro_batch > micro_batch_) {
      micro_batch_ = instruction.micro_batch;
      needed = std::max(needed, last_collective_);
    }
    // Collectives finish in order, so the newest one is enough.
    if (needed > collective_seen_by_compute_) {
      instruction.waits.push_back(event_of(needed));
      collective_seen_by_compute_ = needed;
    }
    last_kernel_ = index;
  }

  InFlight& comm_use(BufferId id) { return in_flight_[storage_of_[static_cast<size_t>(id)]]; }

  int event_of(int index) {
    Instruction& instruction = program_.instructions[static_cast<size_t>(index)];
    if (instruction.signal < 0) instruction.signal = program_.num_events++;
    return instruction.signal;
  }

  Program& program_;
  const std::vector<int>& storage_of_;
  std::map<int, InFlight> in_flight_;
  int last_kernel_ = -1;
  int kernel_seen_by_comm_ = -1;
  int last_collective_ = -1;
  int collective_seen_by_compute_ = -1;
  int micro_batch_ = 0;
};

}  // namespace

void add_events(Program& program, const std::vector<int>& storage_of) {
  EventPass(program, storage_of).run();
}

}  // namespace tessera

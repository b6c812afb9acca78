#include "runtime/comm_clock.h"

#include <map>
#include <utility>

namespace tessera {

CommClock::CommClock(const Program& program)
    : row_of_(program.instructions.size(), -1),
      signaller_(static_cast<size_t>(program.num_events), -1) {
  last_of_.fill(-1);
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> calls;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.signal >= 0) {
      signaller_[static_cast<size_t>(instruction.signal)] = static_cast<int>(i);
    }
    if (instruction.stream == StreamKind::kCompute) continue;
    last_of_[static_cast<size_t>(instruction.stream)] = static_cast<int>(i);
    calls[{name_of(group_of(instruction)), std::string(communication_name(instruction))}].push_back(
        i);
  }
  for (const auto& [name, instructions] : calls) {
    for (const size_t i : instructions) row_of_[i] = static_cast<int>(rows_.size());
    rows_.push_back({name.first, name.second});
  }
}

CommClock::Row* CommClock::row_of(int instruction) {
  if (instruction < 0 || !counts_) return nullptr;
  const int row = row_of_[static_cast<size_t>(instruction)];
  return row < 0 ? nullptr : &rows_[static_cast<size_t>(row)];
}

void CommClock::add_busy(size_t instruction, Clock::duration time) {
  if (Row* row = row_of(static_cast<int>(instruction))) row->busy += time;
}

void CommClock::add_exposed(int event, Clock::duration time) {
  if (Row* row = row_of(signaller_[static_cast<size_t>(event)])) row->exposed += time;
}

void CommClock::add_tail(StreamKind stream, Clock::duration time) {
  if (Row* row = row_of(last_of_[static_cast<size_t>(stream)])) row->exposed += time;
}

std::vector<CommTime> CommClock::times() const {
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  std::vector<CommTime> list;
  for (const Row& row : rows_) {
    list.push_back({row.group, row.op, seconds(row.busy), seconds(row.exposed)});
  }
  return list;
}

void CommClock::reset() {
  for (Row& row : rows_) row.busy = row.exposed = {};
}

}  // namespace tessera

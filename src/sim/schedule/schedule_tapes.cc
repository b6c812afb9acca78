#include "sim/schedule/schedule_tapes.h"

#include "compile/pipeline/schedule/schedule.h"

namespace tessera {
namespace {

template <typename Tape>
const Tape& find_or_make(std::map<ScheduleTapes::Key, std::unique_ptr<Tape>>& tapes,
                         const ScheduleTapes::Key& key) {
  std::unique_ptr<Tape>& tape = tapes[key];
  if (tape == nullptr) {
    const auto& [kind, ranks, virtual_stages, micro_batches] = key;
    tape = std::make_unique<Tape>(make_schedule(kind, static_cast<int>(ranks),
                                                static_cast<int>(virtual_stages),
                                                static_cast<int>(micro_batches)));
  }
  return *tape;
}

}  // namespace

const ProgramTape& ScheduleTapes::program(const Key& key) { return find_or_make(programs_, key); }

const ScheduleTape& ScheduleTapes::schedule(const Key& key) {
  return find_or_make(schedules_, key);
}

}  // namespace tessera

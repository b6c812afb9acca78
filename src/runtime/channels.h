// The communicators of one rank. Programs of a rank that run one after the other share them,
// because a rank joins a group once.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "comm/world.h"
#include "compile/program/program.h"
#include "runtime/traffic_meter.h"

namespace tessera {

class Channels {
 public:
  // `world` must outlive it.
  explicit Channels(CommWorld& world) : world_(world) {}

  // The one that a communicating instruction uses; joined when it is first asked for.
  Communicator& open(const Program& program, const Instruction& instruction);

  [[nodiscard]] TrafficMeter& meter() { return meter_; }
  [[nodiscard]] const TrafficMeter& meter() const { return meter_; }

 private:
  using Key = std::tuple<GroupId, StreamKind, std::vector<int>>;

  [[nodiscard]] StreamKind channel_of(const Instruction& instruction) const;

  CommWorld& world_;
  std::map<Key, std::unique_ptr<Communicator>> groups_;
  TrafficMeter meter_;
};

}  // namespace tessera

// What a rank has sent, by group and operation, as its communicators have counted it.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "compile/program/program.h"

namespace tessera {

class TrafficMeter {
 public:
  // Several communicators may stand for one group. They must outlive the meter.
  void watch(std::string group, const Communicator& communicator);

  // Since the start, or the last reset; no collective may be in flight on any rank.
  [[nodiscard]] std::vector<Traffic> traffic() const;
  void reset();

 private:
  struct Watched {
    std::string group;
    const Communicator* communicator;
    TrafficCounters before{};  // the last reset
  };
  std::vector<Watched> watched_;
};

}  // namespace tessera

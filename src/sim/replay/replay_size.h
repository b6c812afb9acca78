// What a replay will have to do, counted before it begins.
#pragma once

#include "sim/replay/rank_classes.h"
#include "sim/replay/times.h"

namespace tessera {

struct ReplaySize {
  double instructions = 0;  // of one rank of each class
  double link_visits = 0;   // transfers, times the classes whose transfers may share their link
  double members = 0;       // ranks in the groups of all classes, at most
};
ReplaySize replay_size(const RankPrograms& programs, const Times& times,
                       const RankClasses& classes);

// ConfigError where it is more than some seconds or some hundred MiB would do. `folded`: one rank
// stands for each class, else every rank is its own.
void require_bounded(const ReplaySize& size, const RankClasses& classes, bool folded);

}  // namespace tessera

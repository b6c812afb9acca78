#include "sim/replay/replay_size.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace tessera {
namespace {

constexpr double kMostInstructions = 1 << 20;
constexpr double kMostLinkVisits = 1 << 24;
constexpr double kMostMembers = 1 << 26;

double transfers_of(const Program& program) {
  const auto compute =
      std::count_if(program.instructions.begin(), program.instructions.end(),
                    [](const Instruction& i) { return i.stream == StreamKind::kCompute; });
  return static_cast<double>(program.instructions.size()) - static_cast<double>(compute);
}

}  // namespace

ReplaySize replay_size(const RankPrograms& programs, const Times& times,
                       const RankClasses& classes) {
  std::vector<double> transfers;  // by distinct Program
  for (const auto& program : programs.distinct) transfers.push_back(transfers_of(*program));
  std::map<std::pair<int, int>, std::set<int>> users;  // classes of a link, by level
  for (int level = 0; level < times.num_levels(); ++level) {
    for (int rank = 0; rank < programs.world(); ++rank) {
      users[{level, times.link_of(rank, level)}].insert(classes.of_rank[index(rank)]);
    }
  }
  ReplaySize size;
  for (int c = 0; c < classes.count(); ++c) {
    const int rank = classes.representative(c);
    size_t most = 0;
    for (int level = 0; level < times.num_levels(); ++level) {
      most = std::max(most, users[{level, times.link_of(rank, level)}].size());
    }
    size.instructions += static_cast<double>(programs.program(rank).instructions.size());
    size.link_visits += transfers[index(programs.of_rank[index(rank)])] * static_cast<double>(most);
  }
  size.members = static_cast<double>(classes.count()) * static_cast<double>(programs.world());
  return size;
}

void require_bounded(const ReplaySize& size, const RankClasses& classes, bool folded) {
  const char* instead = folded ? "use fewer ranks, layers or micro-batches"
                               : "leave out --all-ranks, or use fewer ranks";
  require_config(size.instructions <= kMostInstructions,
                 "{} ranks have {:.0f} instructions to simulate, more than the {:.0f} that are; {}",
                 classes.count(), size.instructions, kMostInstructions, instead);
  require_config(size.link_visits <= kMostLinkVisits,
                 "the transfers of {} ranks on links that they share make {:.3g} meetings to "
                 "simulate, more than the {:.0f} that are; {}",
                 classes.count(), size.link_visits, kMostLinkVisits, instead);
  require_config(size.members <= kMostMembers,
                 "{} ranks in groups of up to {} make {:.3g} members to simulate, more than the "
                 "{:.0f} that are; {}",
                 classes.count(), classes.of_rank.size(), size.members, kMostMembers, instead);
}

}  // namespace tessera

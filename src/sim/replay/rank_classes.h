// Ranks that do the same at the same time, found without simulating them: one of each class stands
// for all. Pure.
//
// Two ranks are in one class when their instructions take the same times in the same order, and
// whoever they communicate or share a link with is in the same classes too. So a group of ranks
// meets in the same way in every class, and simulating one rank of each class gives what
// simulating all gives.
#pragma once

#include <memory>
#include <vector>

#include "compile/program/program.h"
#include "sim/replay/times.h"

namespace tessera {

// The Programs of a run, one for several ranks where they do the same work.
struct RankPrograms {
  Mesh mesh;
  std::vector<std::shared_ptr<const Program>> distinct;
  std::vector<int> of_rank;  // which of them

  [[nodiscard]] const Program& program(int rank) const {
    return *distinct[static_cast<size_t>(of_rank[static_cast<size_t>(rank)])];
  }
  [[nodiscard]] int world() const { return static_cast<int>(of_rank.size()); }
};

// Every rank has its own.
RankPrograms all_programs(std::vector<Program> programs);

// The ranks that `rank` communicates with in `group`, itself included, in order of their places.
std::vector<int> group_members(const RankPrograms& programs, int rank, const GroupId& group);

struct RankClasses {
  std::vector<int> of_rank;
  std::vector<std::vector<int>> ranks;  // of each class, ascending

  [[nodiscard]] int representative(int of_class) const {
    return ranks[static_cast<size_t>(of_class)].front();
  }
  [[nodiscard]] int count() const { return static_cast<int>(ranks.size()); }
};

// `marks`: ranks with different marks are told apart (a slow rank, a lost one); one for each rank.
RankClasses classify(const RankPrograms& programs, const Times& times,
                     const std::vector<double>& marks);
// Every rank alone.
RankClasses one_class_each(int world);

}  // namespace tessera

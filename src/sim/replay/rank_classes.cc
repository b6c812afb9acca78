#include "sim/replay/rank_classes.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/index.h"

namespace tessera {
namespace {

// What of a Program decides its times: two with the same value do the same, whoever they are.
uint64_t timing_of(const Program& program, const Times& times) {
  Hasher hasher;
  for (const Instruction& instruction : program.instructions) {
    hasher.add(static_cast<int>(instruction.stream));
    hasher.add(static_cast<int>(instruction.op));
    if (instruction.stream == StreamKind::kCompute) {
      hasher.add(times.kernel_s(program, instruction));
    } else {
      hasher.add(static_cast<int>(instruction.collective));
      hasher.add(instruction.group.bits());
      hasher.add(instruction.ends_only);
      hasher.add(instruction.peer);
      for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
        hasher.add(operands->size());
        for (const BufferId id : *operands) hasher.add(program.buffer(id).bytes());
      }
    }
    hasher.add(instruction.signal);
    hasher.add(instruction.waits.size());
    for (const int event : instruction.waits) hasher.add(event);
  }
  return hasher.value();
}

// Whom a rank depends on, from its Program: the same for all ranks of one Program.
struct Partner {
  GroupId group;
  int peer = -1;                        // of messages: place in the group
  const Instruction* sample = nullptr;  // the largest between them
};

// Nothing of a receive: its sender speaks for it.
int64_t largest_operand(const Program& program, const Instruction& instruction) {
  if (instruction.op == OpKind::kReceive) return 0;
  int64_t largest = 0;
  for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
    for (const BufferId id : *operands) largest = std::max(largest, program.buffer(id).bytes());
  }
  return largest;
}

std::vector<Partner> partners_of(const Program& program) {
  std::map<std::pair<GroupId, int>, Partner> partners;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.stream == StreamKind::kCompute) continue;
    const GroupId group = group_of(instruction);
    Partner& partner = partners[{group, instruction.peer}];
    if (partner.sample != nullptr &&
        largest_operand(program, *partner.sample) >= largest_operand(program, instruction)) {
      continue;
    }
    partner = {group, instruction.peer, &instruction};
  }
  std::vector<Partner> list;
  for (const auto& [key, partner] : partners) list.push_back(partner);
  return list;
}

// Colours are refined until ranks of one colour see the same colours around them.
class Refinement {
 public:
  Refinement(const RankPrograms& programs, const Times& times)
      : programs_(programs), times_(times), links_(index(programs.world())) {
    for (const auto& program : programs.distinct) partners_.push_back(partners_of(*program));
    neighbours_.resize(index(programs.world()));
    std::map<std::pair<int, int>, std::vector<int>> users;  // of a link, by level
    for (int level = 0; level < times.num_levels(); ++level) {
      for (int rank = 0; rank < programs.world(); ++rank) {
        users[{level, times.link_of(rank, level)}].push_back(rank);
      }
    }
    for (const auto& [link, ranks] : users) {
      if (ranks.size() > 1) add_set(ranks);
    }
    // In the same order for all ranks: by group, then by peer.
    std::set<GroupId> groups;
    for (const std::vector<Partner>& partners : partners_) {
      for (const Partner& partner : partners) groups.insert(partner.group);
    }
    for (const GroupId& group : groups) {
      for (int rank = 0; rank < programs.world(); ++rank) add_group(rank, group);
    }
    for (int rank = 0; rank < programs.world(); ++rank) add_peers(rank);
  }

  std::vector<int> run(std::vector<int> colours) {
    std::map<std::pair<int, uint64_t>, int> number;
    for (size_t rank = 0; rank < colours.size(); ++rank) {
      const auto key = std::pair(colours[rank], links_[rank].value());
      colours[rank] = number.try_emplace(key, static_cast<int>(number.size())).first->second;
    }
    size_t known = 0;
    for (;;) {
      const size_t count = std::set<int>(colours.begin(), colours.end()).size();
      if (count == known) return colours;
      known = count;
      colours = refined(colours);
    }
  }

 private:
  // Ranks that meet, in any order, or one partner alone.
  struct Neighbour {
    size_t set = 0;
    int rank = -1;
  };

  void add_set(const std::vector<int>& ranks) {
    for (const int rank : ranks) neighbours_[index(rank)].push_back({sets_.size(), -1});
    sets_.push_back(ranks);
  }

  [[nodiscard]] const std::vector<Partner>& partners(int rank) const {
    return partners_[index(programs_.of_rank[index(rank)])];
  }

  // Once for all, by the first: every rank of a group has its collectives.
  void add_group(int rank, const GroupId& group) {
    if (!is_first(rank, group)) return;
    for (const Partner& partner : partners(rank)) {
      if (partner.peer >= 0 || partner.group != group) continue;
      const std::vector<int> members = group_members(programs_, rank, group);
      add_set(members);
      add_link(members, rank, partner, members);
    }
  }

  void add_peers(int rank) {
    for (const Partner& partner : partners(rank)) {
      if (partner.peer < 0) continue;
      const int peer = group_members(programs_, rank, partner.group)[index(partner.peer)];
      neighbours_[index(rank)].push_back({0, peer});
      if (partner.sample->op == OpKind::kReceive) continue;
      add_link({rank}, rank, partner, {std::min(rank, peer), std::max(rank, peer)});
    }
  }

  [[nodiscard]] bool is_first(int rank, const GroupId& group) const {
    if (group.ends_only) return group_members(programs_, rank, group).front() == rank;
    return programs_.mesh.position(rank, group.axes) == 0;
  }

  // Groups of one kind may lie differently on the machine.
  void add_link(const std::vector<int>& to, int rank, const Partner& partner,
                const std::vector<int>& ranks) {
    const TransferTime time = times_.transfer(programs_.program(rank), *partner.sample, ranks);
    for (const int member : to) {
      Hasher& links = links_[index(member)];
      links.add(time.latency_s);
      links.add(time.wire_s);
      links.add(time.level);
    }
  }

  [[nodiscard]] std::vector<int> refined(const std::vector<int>& colours) const {
    std::vector<uint64_t> of_set;
    for (const std::vector<int>& ranks : sets_) {
      std::vector<int> sorted;
      for (const int rank : ranks) sorted.push_back(colours[index(rank)]);
      std::sort(sorted.begin(), sorted.end());
      Hasher hasher;
      for (const int colour : sorted) hasher.add(colour);
      of_set.push_back(hasher.value());
    }
    std::map<std::pair<int, uint64_t>, int> number;
    std::vector<int> next;
    for (size_t rank = 0; rank < colours.size(); ++rank) {
      Hasher hasher;
      for (const Neighbour& neighbour : neighbours_[rank]) {
        if (neighbour.rank < 0) {
          hasher.add(of_set[neighbour.set]);
        } else {
          hasher.add(colours[index(neighbour.rank)]);
        }
      }
      const auto key = std::pair(colours[rank], hasher.value());
      next.push_back(number.try_emplace(key, static_cast<int>(number.size())).first->second);
    }
    return next;
  }

  const RankPrograms& programs_;
  const Times& times_;
  std::vector<Hasher> links_;                   // by rank
  std::vector<std::vector<Partner>> partners_;  // by distinct Program
  std::vector<std::vector<int>> sets_;
  std::vector<std::vector<Neighbour>> neighbours_;  // by rank
};

RankClasses classes_of(const std::vector<int>& colours) {
  RankClasses classes;
  std::map<int, int> number;  // in order of first ranks
  for (size_t rank = 0; rank < colours.size(); ++rank) {
    const int of = number.try_emplace(colours[rank], static_cast<int>(number.size())).first->second;
    if (index(of) == classes.ranks.size()) classes.ranks.emplace_back();
    classes.ranks[index(of)].push_back(static_cast<int>(rank));
    classes.of_rank.push_back(of);
  }
  return classes;
}

}  // namespace

RankPrograms all_programs(std::vector<Program> programs) {
  RankPrograms result;
  result.mesh = programs.front().mesh;
  for (Program& program : programs) {
    result.of_rank.push_back(static_cast<int>(result.distinct.size()));
    result.distinct.push_back(std::make_shared<const Program>(std::move(program)));
  }
  return result;
}

std::vector<int> group_members(const RankPrograms& programs, int rank, const GroupId& group) {
  std::vector<int> members = programs.mesh.peers(rank, group.axes);
  if (!group.ends_only) return members;
  const auto& ends = programs.program(rank).pipeline_ends;
  std::erase_if(members, [&](int member) {
    const int64_t at = programs.mesh.coord(member, Axis::kPp);
    return at != ends[0] && at != ends[1];
  });
  return members;
}

RankClasses classify(const RankPrograms& programs, const Times& times,
                     const std::vector<double>& marks) {
  std::vector<uint64_t> timing;
  for (const auto& program : programs.distinct) timing.push_back(timing_of(*program, times));
  std::map<std::pair<uint64_t, double>, int> number;
  std::vector<int> colours;
  for (int rank = 0; rank < programs.world(); ++rank) {
    const auto key = std::pair(timing[index(programs.of_rank[index(rank)])], marks[index(rank)]);
    colours.push_back(number.try_emplace(key, static_cast<int>(number.size())).first->second);
  }
  return classes_of(Refinement(programs, times).run(std::move(colours)));
}

RankClasses one_class_each(int world) {
  std::vector<int> colours;
  for (int rank = 0; rank < world; ++rank) colours.push_back(rank);
  return classes_of(colours);
}

}  // namespace tessera

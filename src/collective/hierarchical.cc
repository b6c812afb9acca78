// Hierarchical: inside each node, between nodes, inside again, so that the slow links between nodes
// carry as little as possible. Each level talks directly (see direct.cc). Nodes may be of different
// sizes, and ranks may be spread over them in any order.
//
//   all_reduce, 2 nodes of 2 ranks         a | b   and   c | d
//   inside    block i of the node's ranks is summed on its rank i     a0+b0 | a1+b1   c0+d0 | c1+d1
//   between   ranks with the same i sum their block directly          s0 | s1         s0 | s1
//   inside    block i goes from rank i to all                         s0 s1 | s0 s1   s0 s1 | s0 s1
#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collective/algorithms.h"

namespace tessera {
namespace {

using place::in;
using place::out;

// Who is where. Nodes are numbered in order of their lowest rank.
class Nodes {
 public:
  explicit Nodes(const ScheduleRequest& request) : node_(static_cast<size_t>(request.ranks)) {
    std::vector<int> names;
    for (int rank = 0; rank < request.ranks; ++rank) {
      const int name = request.nodes.empty() ? 0 : request.nodes[static_cast<size_t>(rank)];
      const auto known = std::find(names.begin(), names.end(), name);
      const auto node = static_cast<int>(known - names.begin());
      if (known == names.end()) {
        names.push_back(name);
        members_.emplace_back();
      }
      node_[static_cast<size_t>(rank)] = node;
      members_[static_cast<size_t>(node)].push_back(rank);
    }
  }

  [[nodiscard]] int num() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int of(int rank) const { return node_[static_cast<size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& members(int node) const {
    return members_[static_cast<size_t>(node)];
  }
  [[nodiscard]] int smallest() const {
    size_t size = node_.size();
    for (const std::vector<int>& ranks : members_) size = std::min(size, ranks.size());
    return static_cast<int>(size);
  }
  [[nodiscard]] int local(int rank) const {
    const std::vector<int>& peers = members(of(rank));
    return static_cast<int>(std::find(peers.begin(), peers.end(), rank) - peers.begin());
  }
  // The rank of `node` that deals with `rank`: itself at home, one with its local number elsewhere.
  [[nodiscard]] int agent(int node, int rank) const {
    const std::vector<int>& ranks = members(node);
    return ranks[static_cast<size_t>(local(rank)) % ranks.size()];
  }
  // The rank of `node` that talks to the root.
  [[nodiscard]] int leader(int node, int root) const {
    return of(root) == node ? root : members(node).front();
  }

 private:
  std::vector<int> node_;
  std::vector<std::vector<int>> members_;
};

void broadcast(ScheduleBuilder& b, const Nodes& nodes) {
  const int home = nodes.of(b.rank());
  const int leader = nodes.leader(home, b.root());
  for (int node = 0; node < nodes.num(); ++node) {
    const int other = nodes.leader(node, b.root());
    if (other == b.root()) continue;
    if (b.is_root()) b.send(other, out(), b.count());
    if (b.rank() == other) b.receive(b.root(), out(), b.count());
  }
  b.next_round();
  if (b.rank() != leader) return b.receive(leader, out(), b.count());
  for (const int peer : nodes.members(home)) {
    if (peer != leader) b.send(peer, out(), b.count());
  }
}

// The sum of the `ranks` contributions in[from, from + count) is left in `sum` on `owner`. Called
// by all of them; the addition is returned, to be made in the next round.
struct Addition {
  std::vector<StepPlace> operands;
  StepPlace to;
  int64_t count = 0;
};
Addition collect(ScheduleBuilder& b, const std::vector<int>& ranks, int owner, StepPlace mine,
                 StepPlace sum, int64_t count) {
  if (b.rank() != owner) {
    b.send(owner, mine, count);
    return {};
  }
  Addition addition{{}, sum, count};
  for (const int peer : ranks) {
    addition.operands.push_back(peer == owner ? mine : b.scratch(count));
    if (peer != owner) b.receive(peer, addition.operands.back(), count);
  }
  return addition;
}

void perform(ScheduleBuilder& b, const Addition& addition, bool complete) {
  if (addition.operands.empty()) return;
  if (complete) {
    b.complete(addition.operands, addition.to, addition.count);
  } else {
    b.add(addition.operands, addition.to, addition.count);
  }
}

void reduce(ScheduleBuilder& b, const Nodes& nodes) {
  const int home = nodes.of(b.rank());
  const int leader = nodes.leader(home, b.root());
  const bool single = nodes.num() == 1;
  const StepPlace node_sum = b.is_root() ? out() : b.scratch(b.rank() == leader ? b.count() : 0);
  const Addition inside = collect(b, nodes.members(home), leader, in(), node_sum, b.count());
  b.next_round();
  perform(b, inside, single);
  b.next_round();
  if (single || b.rank() != leader) return;
  std::vector<int> leaders;
  for (int node = 0; node < nodes.num(); ++node) leaders.push_back(nodes.leader(node, b.root()));
  const Addition between = collect(b, leaders, b.root(), node_sum, out(), b.count());
  b.next_round();
  perform(b, between, /*complete=*/true);
}

void all_gather(ScheduleBuilder& b, const Nodes& nodes) {
  const int home = nodes.of(b.rank());
  b.copy(in(), out(b.rank() * b.count()), b.count());
  for (int rank = 0; rank < b.ranks(); ++rank) {
    for (int node = 0; node < nodes.num(); ++node) {
      const int agent = nodes.agent(node, rank);
      if (agent == rank) continue;
      if (b.rank() == rank && node != home) b.send(agent, in(), b.count());
      if (b.rank() == agent && nodes.of(rank) != home)
        b.receive(rank, out(rank * b.count()), b.count());
    }
  }
  b.next_round();
  for (int rank = 0; rank < b.ranks(); ++rank) {
    const int agent = nodes.agent(home, rank);
    const StepPlace place = out(rank * b.count());
    if (b.rank() != agent) b.receive(agent, place, b.count());
    for (const int peer : nodes.members(home)) {
      if (b.rank() == agent && peer != agent) b.send(peer, place, b.count());
    }
  }
}

void reduce_scatter(ScheduleBuilder& b, const Nodes& nodes) {
  const int home = nodes.of(b.rank());
  const bool single = nodes.num() == 1;
  // Inside: the shard of every rank, summed over this node on the agent of that rank.
  std::vector<Addition> inside;
  std::vector<StepPlace> node_sums(static_cast<size_t>(b.ranks()));
  for (int rank = 0; rank < b.ranks(); ++rank) {
    const int agent = nodes.agent(home, rank);
    StepPlace& sum = node_sums[static_cast<size_t>(rank)];
    if (b.rank() == agent) sum = single ? out() : b.scratch(b.count());
    inside.push_back(collect(b, nodes.members(home), agent, in(rank * b.count()), sum, b.count()));
  }
  b.next_round();
  for (const Addition& addition : inside) perform(b, addition, single);
  b.next_round();
  if (single) return;
  // Between: the agents of a rank give it their sums.
  Addition between;
  for (int rank = 0; rank < b.ranks(); ++rank) {
    std::vector<int> agents;
    for (int node = 0; node < nodes.num(); ++node) agents.push_back(nodes.agent(node, rank));
    if (std::find(agents.begin(), agents.end(), b.rank()) == agents.end()) continue;
    Addition addition =
        collect(b, agents, rank, node_sums[static_cast<size_t>(rank)], out(), b.count());
    if (rank == b.rank()) between = std::move(addition);
  }
  b.next_round();
  perform(b, between, /*complete=*/true);
}

// Sums out[block] over `owners`, which all hold it, into the same place on all of them: directly,
// each owner the part with its own number.
void all_reduce_between(ScheduleBuilder& b, const std::vector<int>& owners, SliceRange block) {
  const auto num = static_cast<int>(owners.size());
  const auto part = [&](int owner) {
    const SliceRange range = all_reduce_slice(block.size(), b.request().element_bytes, owner, num);
    return SliceRange{block.begin + range.begin, block.begin + range.end};
  };
  Addition mine;
  for (int owner = 0; owner < num; ++owner) {
    const SliceRange range = part(owner);
    const int rank = owners[static_cast<size_t>(owner)];
    Addition addition = collect(b, owners, rank, out(range.begin), out(range.begin), range.size());
    if (rank == b.rank()) mine = std::move(addition);
  }
  b.next_round();
  perform(b, mine, /*complete=*/true);
  b.next_round();
  for (int owner = 0; owner < num; ++owner) {
    const SliceRange range = part(owner);
    const int rank = owners[static_cast<size_t>(owner)];
    if (rank != b.rank()) b.receive(rank, out(range.begin), range.size());
    for (const int peer : owners) {
      if (rank == b.rank() && peer != rank) b.send(peer, out(range.begin), range.size());
    }
  }
  b.next_round();
}

void all_reduce(ScheduleBuilder& b, const Nodes& nodes) {
  const std::vector<int>& peers = nodes.members(nodes.of(b.rank()));
  const int local = nodes.local(b.rank());
  const int num_blocks = nodes.smallest();  // so that every node has a rank for every block
  const auto block = [&](int i) {
    return all_reduce_slice(b.count(), b.request().element_bytes, i, num_blocks);
  };
  Addition inside;
  for (int i = 0; i < num_blocks; ++i) {
    const int owner = peers[static_cast<size_t>(i)];
    const StepPlace sum = out(block(i).begin);
    Addition addition = collect(b, peers, owner, in(block(i).begin), sum, block(i).size());
    if (owner == b.rank()) inside = std::move(addition);
  }
  b.next_round();
  perform(b, inside, nodes.num() == 1);
  b.next_round();
  if (nodes.num() > 1) {
    std::vector<int> owners;
    for (int node = 0; node < nodes.num() && local < num_blocks; ++node) {
      owners.push_back(nodes.members(node)[static_cast<size_t>(local)]);
    }
    all_reduce_between(b, owners, local < num_blocks ? block(local) : SliceRange{});
  }
  for (int i = 0; i < num_blocks; ++i) {
    const int owner = peers[static_cast<size_t>(i)];
    if (owner != b.rank()) b.receive(owner, out(block(i).begin), block(i).size());
    for (const int peer : peers) {
      if (owner == b.rank() && peer != owner) b.send(peer, out(block(i).begin), block(i).size());
    }
  }
}

}  // namespace

void schedule_hierarchical(ScheduleBuilder& b) {
  const Nodes nodes(b.request());
  switch (b.request().op) {
    case CollectiveOp::kBroadcast:
      return broadcast(b, nodes);
    case CollectiveOp::kReduce:
      return reduce(b, nodes);
    case CollectiveOp::kAllGather:
      return all_gather(b, nodes);
    case CollectiveOp::kReduceScatter:
      return reduce_scatter(b, nodes);
    case CollectiveOp::kAllReduce:
      return all_reduce(b, nodes);
    default:
      TESSERA_CHECK(false, "hierarchical {}", name_of(b.request().op));
  }
}

}  // namespace tessera

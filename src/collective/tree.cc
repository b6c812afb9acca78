// Tree: a binomial tree with the root on top, so log2(n) steps. The best there is for small
// broadcasts and reductions; for large ones the root sends (or adds) the whole array at every step.
//
//   6 ranks, root 0       step 1: 0 -> 4     step 2: 0 -> 2     step 3: 0 -> 1, 2 -> 3, 4 -> 5
//         0               (downwards; the same steps backwards lead upwards)
//       / | \.
//      4  2  1            A rank is numbered by its distance from the root, around the ring. The
//      5  3               subtree of child v + mask is the ranks v + mask … v + 2 mask - 1.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "collective/algorithms.h"

namespace tessera {
namespace {

using place::in;
using place::out;

// This rank in the tree; numbers count from the root.
struct Node {
  explicit Node(const ScheduleBuilder& b, int root_rank)
      : ranks(b.ranks()), root(root_rank), number(b.wrap(b.rank() - root_rank)) {}

  [[nodiscard]] int rank_of(int node) const { return (node + root) % ranks; }
  [[nodiscard]] bool is_root() const { return number == 0; }
  // In the step of `mask` (a power of two): talks to its parent, to a child, or to nobody.
  [[nodiscard]] bool meets_parent(int mask) const { return number % (2 * mask) == mask; }
  [[nodiscard]] bool meets_child(int mask) const {
    return number % (2 * mask) == 0 && number + mask < ranks;
  }
  [[nodiscard]] int parent(int mask) const { return rank_of(number - mask); }
  [[nodiscard]] int child(int mask) const { return rank_of(number + mask); }
  [[nodiscard]] int subtree_size() const {
    const int lowest_bit = is_root() ? ranks : number & -number;
    return std::min(lowest_bit, ranks - number);
  }

  int ranks;
  int root;
  int number;
};

int highest_mask(int ranks) { return (1 << log2_rounds(ranks)) / 2; }

void broadcast(ScheduleBuilder& b, int root) {
  const Node node(b, root);
  for (int mask = highest_mask(b.ranks()); mask > 0; mask /= 2) {
    if (node.meets_parent(mask)) b.receive(node.parent(mask), out(), b.count());
    if (node.meets_child(mask)) b.send(node.child(mask), out(), b.count());
    b.next_round();
  }
}

void reduce(ScheduleBuilder& b, int root) {
  const Node node(b, root);
  if (b.ranks() == 1) return b.copy(in(), out(), b.count());
  const bool has_children = node.subtree_size() > 1;
  const StepPlace sum = node.is_root() ? out() : b.scratch(has_children ? b.count() : 0);
  const StepPlace arriving = b.scratch(has_children ? b.count() : 0);
  StepPlace so_far = in();
  for (int mask = 1; mask < b.ranks(); mask *= 2) {
    if (node.meets_parent(mask)) b.send(node.parent(mask), so_far, b.count());
    if (node.meets_child(mask)) b.receive(node.child(mask), arriving, b.count());
    b.next_round();
    if (node.meets_child(mask)) {
      const std::array<StepPlace, 2> operands = {so_far, arriving};
      const bool last = node.is_root() && mask == highest_mask(b.ranks());
      if (last) {
        b.complete(operands, sum, b.count());
      } else {
        b.add(operands, sum, b.count());
      }
      so_far = sum;
    }
    b.next_round();
  }
}

// The blocks of nodes first … first + num - 1. The root keeps blocks in order of rank, so what it
// exchanges breaks where the numbers pass the last rank; everyone else keeps a subtree in one
// piece.
class Subtree {
 public:
  Subtree(const Node& node, StepPlace place, int64_t count)
      : node_(node), place_(place), count_(count) {}

  // Calls move(place, elements) for each piece of the blocks.
  template <typename Move>
  void each_piece(int first, int num, bool with_root, const Move& move) const {
    num = std::min(num, node_.ranks - first);
    const int break_at = node_.ranks - node_.root;  // this node is rank 0
    const bool broken = with_root && first < break_at && break_at < first + num;
    const int before = broken ? break_at - first : num;
    move(place_of(first), before * count_);
    if (broken) move(place_of(break_at), (num - before) * count_);
  }

 private:
  [[nodiscard]] StepPlace place_of(int number) const {
    if (node_.is_root()) return place_ + node_.rank_of(number) * count_;
    return place_ + (number - node_.number) * count_;
  }
  const Node& node_;
  StepPlace place_;
  int64_t count_;
};

void gather(ScheduleBuilder& b) {
  const Node node(b, b.root());
  const bool leaf = node.subtree_size() == 1;
  StepPlace place = out();
  if (!node.is_root()) place = leaf ? in() : b.scratch(node.subtree_size() * b.count());
  b.copy(in(), node.is_root() ? out(b.rank() * b.count()) : place, b.count());
  b.next_round();
  const Subtree blocks(node, place, b.count());
  for (int mask = 1; mask < b.ranks(); mask *= 2) {
    if (node.meets_parent(mask)) {
      blocks.each_piece(node.number, mask, node.number == mask, [&](StepPlace piece, int64_t size) {
        b.send(node.parent(mask), piece, size);
      });
    }
    if (node.meets_child(mask)) {
      blocks.each_piece(
          node.number + mask, mask, node.is_root(),
          [&](StepPlace piece, int64_t size) { b.receive(node.child(mask), piece, size); });
    }
    b.next_round();
  }
}

void scatter(ScheduleBuilder& b) {
  const Node node(b, b.root());
  const bool leaf = node.subtree_size() == 1;
  StepPlace place = in();
  if (!node.is_root()) place = leaf ? out() : b.scratch(node.subtree_size() * b.count());
  const Subtree blocks(node, place, b.count());
  for (int mask = highest_mask(b.ranks()); mask > 0; mask /= 2) {
    if (node.meets_parent(mask)) {
      blocks.each_piece(node.number, mask, node.number == mask, [&](StepPlace piece, int64_t size) {
        b.receive(node.parent(mask), piece, size);
      });
    }
    if (node.meets_child(mask)) {
      blocks.each_piece(
          node.number + mask, mask, node.is_root(),
          [&](StepPlace piece, int64_t size) { b.send(node.child(mask), piece, size); });
    }
    b.next_round();
  }
  b.copy(node.is_root() ? in(b.rank() * b.count()) : place, out(), b.count());
}

}  // namespace

void schedule_tree(ScheduleBuilder& b) {
  switch (b.request().op) {
    case CollectiveOp::kBroadcast:
      return broadcast(b, b.root());
    case CollectiveOp::kReduce:
      return reduce(b, b.root());
    case CollectiveOp::kGather:
      return gather(b);
    case CollectiveOp::kScatter:
      return scatter(b);
    case CollectiveOp::kAllReduce:
      reduce(b, 0);
      return broadcast(b, 0);
    default:
      TESSERA_CHECK(false, "tree {}", name_of(b.request().op));
  }
}

}  // namespace tessera

#include "collective/cost.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "collective/all_ranks.h"
#include "collective/schedule_builder.h"

namespace tessera {
namespace {

using enum CollectiveOp;
using enum Algorithm;
using Shape = CostShape;
using Cost = CollectiveCost;

int64_t payload(const Shape& s) { return s.count * s.element_bytes; }
int rounds(const Shape& s) { return log2_rounds(s.ranks); }
int per_node(const Shape& s) { return s.ranks_per_node > 0 ? s.ranks_per_node : s.ranks; }
int num_nodes(const Shape& s) { return s.ranks / per_node(s); }
// A level that has one member sends nothing.
int levels(const Shape& s, int inside, int between) {
  return (per_node(s) > 1 ? inside : 0) + (num_nodes(s) > 1 ? between : 0);
}

// Bytes of slice `i` (around the end) when `bytes` are cut into `parts`.
int64_t slice_bytes(const Shape& s, int64_t count, int i, int parts) {
  return all_reduce_slice(count, s.element_bytes, i % parts, parts).size() * s.element_bytes;
}

// The most that any rank sends.
template <typename Bytes>
int64_t busiest(const Shape& s, const Bytes& bytes_of) {
  int64_t most = 0;
  for (int rank = 0; rank < s.ranks; ++rank) most = std::max<int64_t>(most, bytes_of(rank));
  return most;
}

// Everything but the own block is given away as it is; then the own sum goes to everyone.
int64_t direct_all_reduce(const Shape& s) {
  return busiest(s, [&](int rank) {
    return payload(s) + (s.ranks - 2) * slice_bytes(s, s.count, rank, s.ranks);
  });
}

// Every block but the own one, then every block but the next one's.
int64_t ring_all_reduce(const Shape& s) {
  return busiest(s, [&](int rank) {
    return 2 * payload(s) - slice_bytes(s, s.count, rank, s.ranks) -
           slice_bytes(s, s.count, rank + 1, s.ranks);
  });
}

// Every block but the own one, then at each distance the own block and those that follow it.
int64_t doubling_all_reduce(const Shape& s) {
  return busiest(s, [&](int rank) {
    int64_t bytes = payload(s) - slice_bytes(s, s.count, rank, s.ranks);
    for (int distance = 1; distance < s.ranks; distance *= 2) {
      for (int i = 0; i < std::min(distance, s.ranks - distance); ++i) {
        bytes += slice_bytes(s, s.count, rank + i, s.ranks);
      }
    }
    return bytes;
  });
}

// Direct inside the node with one block per local rank, direct between nodes with a part of it.
int64_t hierarchical_all_reduce(const Shape& s) {
  const int g = per_node(s);
  const int m = num_nodes(s);
  return busiest(s, [&](int rank) {
    const int64_t count = all_reduce_slice(s.count, s.element_bytes, rank % g, g).size();
    const int64_t block = count * s.element_bytes;
    const int64_t between =
        m > 1 ? block + (m - 2) * slice_bytes(s, count, rank / g, m) : int64_t{0};
    return payload(s) + (g - 2) * block + between;
  });
}

// The child of the root with the largest subtree.
int64_t tree_gather(const Shape& s) {
  const int top = (1 << rounds(s)) / 2;
  return std::max(s.ranks - top, top / 2) * payload(s);
}

Cost all_from_one(const Shape& s) { return {(s.ranks - 1) * payload(s), 1}; }
Cost one_by_one(const Shape& s) { return {(s.ranks - 1) * payload(s), s.ranks - 1}; }
Cost log_steps(const Shape& s) { return {(s.ranks - 1) * payload(s), rounds(s)}; }
Cost once(const Shape& s) { return {payload(s), 1}; }
Cost two_levels(const Shape& s) { return {(s.ranks - 1) * payload(s), levels(s, 1, 1)}; }

// Slices are whole granules, so for odd counts the fractions in the texts are exact only on
// average.
constexpr CostForm kForms[] = {
    {kBroadcast, kDirect, "(n-1) B", "1", all_from_one},
    {kBroadcast, kNaive, "(n-1) B", "n-1", one_by_one},
    {kBroadcast, kRing, "B", "n-1",
     [](const Shape& s) {
       return Cost{payload(s), s.ranks - 1};
     }},
    {kBroadcast, kTree, "L B", "L",
     [](const Shape& s) {
       return Cost{rounds(s) * payload(s), rounds(s)};
     }},
    {kBroadcast, kHierarchical, "(m-1) B + (g-1) B", "2",
     [](const Shape& s) {
       return Cost{(num_nodes(s) + per_node(s) - 2) * payload(s), levels(s, 1, 1)};
     }},
    {kScatter, kDirect, "(n-1) B", "1", all_from_one},
    {kScatter, kNaive, "(n-1) B", "n-1", one_by_one},
    {kScatter, kTree, "(n-1) B", "L", log_steps},
    {kGather, kDirect, "B", "1", once},
    {kGather, kNaive, "B", "n-1",
     [](const Shape& s) {
       return Cost{payload(s), s.ranks - 1};
     }},
    {kGather, kTree, "at most n/2 B", "L",
     [](const Shape& s) {
       return Cost{tree_gather(s), rounds(s)};
     }},
    {kReduce, kDirect, "B", "1", once},
    {kReduce, kNaive, "B", "n-1",
     [](const Shape& s) {
       return Cost{payload(s), s.ranks - 1};
     }},
    {kReduce, kTree, "B", "L",
     [](const Shape& s) {
       return Cost{payload(s), rounds(s)};
     }},
    {kReduce, kHierarchical, "B", "2",
     [](const Shape& s) {
       return Cost{payload(s), levels(s, 1, 1)};
     }},
    {kAllGather, kDirect, "(n-1) B", "1", all_from_one},
    {kAllGather, kNaive, "n (n-1) B", "2 (n-1)",
     [](const Shape& s) {
       return Cost{s.ranks * (s.ranks - 1) * payload(s), 2 * (s.ranks - 1)};
     }},
    {kAllGather, kRing, "(n-1) B", "n-1", one_by_one},
    {kAllGather, kDoubling, "(n-1) B", "L", log_steps},
    {kAllGather, kHierarchical, "(n-1) B; (m-1) B leave the node", "2", two_levels},
    {kReduceScatter, kDirect, "(n-1) B", "1", all_from_one},
    {kReduceScatter, kNaive, "n B", "2 (n-1)",
     [](const Shape& s) {
       return Cost{s.ranks * payload(s), 2 * (s.ranks - 1)};
     }},
    {kReduceScatter, kRing, "(n-1) B", "n-1", one_by_one},
    {kReduceScatter, kDoubling, "(n-1) B", "L", log_steps},
    {kReduceScatter, kHierarchical, "(n-1) B; (m-1) B leave the node", "2", two_levels},
    {kAllReduce, kOneShot, "(n-1) B", "1", all_from_one},
    {kAllReduce, kDirect, "2 (n-1)/n B", "2",
     [](const Shape& s) {
       return Cost{direct_all_reduce(s), 2};
     }},
    {kAllReduce, kNaive, "(n-1) B", "2 (n-1)",
     [](const Shape& s) {
       return Cost{(s.ranks - 1) * payload(s), 2 * (s.ranks - 1)};
     }},
    {kAllReduce, kRing, "2 (n-1)/n B", "2 (n-1)",
     [](const Shape& s) {
       return Cost{ring_all_reduce(s), 2 * (s.ranks - 1)};
     }},
    {kAllReduce, kTree, "L B", "2 L",
     [](const Shape& s) {
       return Cost{rounds(s) * payload(s), 2 * rounds(s)};
     }},
    {kAllReduce, kDoubling, "2 (n-1)/n B", "2 L",
     [](const Shape& s) {
       return Cost{doubling_all_reduce(s), 2 * rounds(s)};
     }},
    {kAllReduce, kHierarchical, "2 (g-1)/g B + 2 (m-1)/m B/g", "4",
     [](const Shape& s) {
       return Cost{hierarchical_all_reduce(s), levels(s, 2, 2)};
     }},
    {kAllToAll, kDirect, "(n-1) B", "1", all_from_one},
    {kAllToAll, kRing, "(n-1) B", "n-1", one_by_one},
    {kSend, kDirect, "B", "1", once},
    {kBarrier, kDirect, "0", "1",
     [](const Shape&) {
       return Cost{0, 1};
     }},
    {kBarrier, kNaive, "0", "2 (n-1)",
     [](const Shape& s) {
       return Cost{0, 2 * (s.ranks - 1)};
     }},
    {kBarrier, kDoubling, "0", "L",
     [](const Shape& s) {
       return Cost{0, rounds(s)};
     }},
};

// "1.5 MiB in 2" steps, counted from the schedules for 1 MiB on `ranks` ranks, two nodes of half of
// them.
std::string example(const CostForm& form, int ranks) {
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks; ++rank) nodes.push_back(rank / (ranks / 2));
  ScheduleRequest request{.op = form.op,
                          .algorithm = form.algorithm,
                          .ranks = ranks,
                          .root = form.op == kSend ? ranks - 1 : 0,
                          .count = form.op == kBarrier ? 0 : 1 << 18,
                          .nodes = nodes};
  const std::vector<CollectiveSchedule> schedules =
      form.op == kSend ? std::vector{make_schedule(request)} : make_schedules(request);
  int64_t most = 0;
  for (const CollectiveSchedule& schedule : schedules) most = std::max(most, bytes_sent(schedule));
  return fmt::format("{:g} MiB in {}", static_cast<double>(most) / (1 << 20), num_steps(schedules));
}

}  // namespace

std::span<const CostForm> cost_forms() { return kForms; }

CollectiveCost closed_form_cost(CollectiveOp op, Algorithm algorithm, const CostShape& shape) {
  require_supported(op, algorithm);
  if (shape.ranks == 1) return {};
  const auto form = std::find_if(std::begin(kForms), std::end(kForms), [&](const CostForm& f) {
    return f.op == op && f.algorithm == algorithm;
  });
  TESSERA_CHECK(form != std::end(kForms), "no closed form of {}", name_of(op));
  return form->cost(shape);
}

std::string cost_table_markdown() {
  std::string text =
      "| op | algorithm | bytes sent by the busiest rank | steps | sum in order of rank | 4 ranks, "
      "1 MiB | 8 ranks, 1 MiB |\n|---|---|---|---|---|---|---|\n";
  for (const CostForm& form : kForms) {
    const std::string_view ordered =
        !reduces(form.op) ? "" : (promises_rank_order(form.algorithm) ? "yes" : "no");
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", name_of(form.op),
                        name_of(form.algorithm), form.bytes_text, form.steps_text, ordered,
                        example(form, 4), example(form, 8));
  }
  return text;
}

}  // namespace tessera

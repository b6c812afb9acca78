#include "data/tokenizer/model/merging.h"

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

// Up to here looking at every pair is faster than keeping a heap.
constexpr size_t kMostSymbolsScanned = 40;

void merge_by_scan(const PairTable& merges, std::vector<Merge>& pairs,
                   std::vector<ModelToken>& symbols) {
  size_t count = symbols.size();
  pairs.resize(count);
  ModelToken* const symbol = symbols.data();
  Merge* const pair = pairs.data();  // of a symbol and the one after it
  for (size_t i = 0; i + 1 < count; ++i) pair[i] = merges.find(symbol[i].id, symbol[i + 1].id);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) best = pair[i].rank < pair[best].rank ? i : best;
    if (pair[best].rank == kNoRank) break;
    symbol[best] = {pair[best].id, symbol[best].bytes + symbol[best + 1].bytes};
    const size_t after = count - best - 2;
    std::memmove(symbol + best + 1, symbol + best + 2, after * sizeof(ModelToken));
    std::memmove(pair + best + 1, pair + best + 2, after * sizeof(Merge));
    --count;
    if (best > 0) pair[best - 1] = merges.find(symbol[best - 1].id, symbol[best].id);
    if (best + 1 < count) pair[best] = merges.find(symbol[best].id, symbol[best + 1].id);
  }
  symbols.resize(count);
}

class HeapMerge {
 public:
  HeapMerge(const PairTable& merges, MergeWorkspace& workspace)
      : merges_(merges), nodes_(workspace.nodes), heap_(workspace.heap) {}

  void run(std::vector<ModelToken>& symbols) {
    start(symbols);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const Candidate best = heap_.back();
      heap_.pop_back();
      join(best);
    }
    symbols.clear();
    for (const Node& node : nodes_) {
      if (node.bytes > 0) symbols.push_back({node.id, node.bytes});
    }
  }

 private:
  using Node = MergeWorkspace::Node;
  using Candidate = MergeWorkspace::Candidate;

  static bool later(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }

  void start(const std::vector<ModelToken>& symbols) {
    nodes_.clear();
    heap_.clear();
    const auto count = static_cast<int32_t>(symbols.size());
    for (int32_t i = 0; i < count; ++i) {
      const ModelToken& symbol = symbols[static_cast<size_t>(i)];
      nodes_.push_back({symbol.id, symbol.bytes, i - 1, i + 1 < count ? i + 1 : -1});
    }
    for (int32_t i = 0; i + 1 < count; ++i) {
      const Merge merge = pair_at(i);
      if (merge.rank != kNoRank) heap_.push_back({merge.rank, i, merge.id});
    }
    std::make_heap(heap_.begin(), heap_.end(), later);
  }

  Node& node(int32_t at) { return nodes_[static_cast<size_t>(at)]; }
  Merge pair_at(int32_t at) { return merges_.find(node(at).id, node(node(at).next).id); }

  void offer(int32_t at) {
    const Merge merge = pair_at(at);
    if (merge.rank == kNoRank) return;
    heap_.push_back({merge.rank, at, merge.id});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  void join(const Candidate& best) {
    Node& left = node(best.at);
    if (left.bytes == 0 || left.next < 0) return;
    // One of the pair may have been joined with another since.
    const Merge now = pair_at(best.at);
    if (now.rank == kNoRank || now.id != best.id) return;
    Node& right = node(left.next);
    left.id = best.id;
    left.bytes += right.bytes;
    right.bytes = 0;
    left.next = right.next;
    if (left.next >= 0) node(left.next).previous = best.at;
    if (left.previous >= 0) offer(left.previous);
    if (left.next >= 0) offer(best.at);
  }

  const PairTable& merges_;
  std::vector<Node>& nodes_;
  std::vector<Candidate>& heap_;
};

}  // namespace

void merge_all(const PairTable& merges, MergeWorkspace& workspace,
               std::vector<ModelToken>& symbols) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kMostSymbolsScanned) {
    merge_by_scan(merges, workspace.pairs, symbols);
  } else {
    HeapMerge(merges, workspace).run(symbols);
  }
}

}  // namespace tessera

#include "data/tokenizer/model/merge_windows.h"

#include <algorithm>
#include <span>
#include <utility>

namespace tessera {
namespace {

constexpr int32_t kSymbol = -1;  // made by no merge
constexpr int32_t kNever = -2;   // no merges lead to it
constexpr size_t kWindow = 32;   // symbols
constexpr size_t kLargestWindow = 1024;
// So many of a window's last tokens are made again: it ends there, the piece does not.
constexpr size_t kTokensMadeAgain = 2;

// The first of the symbols that so many bytes before `end` are made of.
size_t back(std::span<const ModelToken> symbols, size_t end, size_t bytes) {
  for (size_t left = bytes; left > 0; left -= symbols[end].bytes) --end;
  return end;
}

}  // namespace

MergeWindows::MergeWindows(const PairTable& merges, std::vector<MergeRule> rules,
                           const std::vector<int32_t>& first_symbols)
    : merges_(merges), rules_(std::move(rules)) {
  int32_t largest = -1;
  for (const MergeRule& rule : rules_)
    largest = std::max({largest, rule.left, rule.right, rule.id});
  for (const int32_t id : first_symbols) largest = std::max(largest, id);
  maker_.assign(static_cast<size_t>(largest) + 1, kNever);
  for (const int32_t id : first_symbols) maker_[static_cast<size_t>(id)] = kSymbol;
  usable_ = is_ascending();
  if (usable_) find_makers();
}

// Whether each merge comes after all that make what it joins, and none makes a first symbol.
bool MergeWindows::is_ascending() const {
  std::vector<int32_t> last(maker_.size(), -1);  // by id: the last rule that makes it
  const auto count = static_cast<int32_t>(rules_.size());
  for (int32_t i = 0; i < count; ++i) {
    const MergeRule& rule = rules_[static_cast<size_t>(i)];
    if (merges_.find(rule.left, rule.right).rank != static_cast<uint32_t>(i)) continue;
    if (maker_[static_cast<size_t>(rule.id)] == kSymbol) return false;
    last[static_cast<size_t>(rule.id)] = i;
  }
  for (int32_t i = 0; i < count; ++i) {
    const MergeRule& rule = rules_[static_cast<size_t>(i)];
    const int32_t latest =
        std::max(last[static_cast<size_t>(rule.left)], last[static_cast<size_t>(rule.right)]);
    if (latest >= i) return false;
  }
  return true;
}

// A rule makes its token of that token's own text if nothing else is joined between its two parts
// before: that is so for one rule at most.
void MergeWindows::find_makers() {
  for (size_t i = 0; i < rules_.size(); ++i) {
    const MergeRule& rule = rules_[i];
    if (merges_.find(rule.left, rule.right).rank != i) continue;
    int32_t& maker = maker_[static_cast<size_t>(rule.id)];
    const bool has_parts = maker_[static_cast<size_t>(rule.left)] != kNever &&
                           maker_[static_cast<size_t>(rule.right)] != kNever;
    if (maker == kNever && has_parts && parts_stay_apart(rule.left, rule.right)) {
      maker = static_cast<int32_t>(i);
    }
  }
}

// Goes back in time, from the two tokens to the symbols at their border. A pair that stood there is
// joined by its merge unless one of the two was gone by then. In one round, the left one goes
// first.
bool MergeWindows::parts_stay_apart(int32_t left, int32_t right) const {
  uint32_t left_gone = kNoRank, right_gone = kNoRank;
  while (true) {
    const int32_t left_made = maker_[static_cast<size_t>(left)];
    const int32_t right_made = maker_[static_cast<size_t>(right)];
    if (left_made == kSymbol && right_made == kSymbol) return true;
    if (left_made > right_made) {
      left = rules_[static_cast<size_t>(left_made)].right;
      left_gone = static_cast<uint32_t>(left_made);
    } else {
      right = rules_[static_cast<size_t>(right_made)].left;
      right_gone = static_cast<uint32_t>(right_made);
    }
    const uint32_t rank = merges_.find(left, right).rank;
    if (rank < left_gone && rank <= right_gone) return false;
  }
}

bool MergeWindows::stay_apart(int32_t left, int32_t right) const {
  return maker_[static_cast<size_t>(left)] != kNever &&
         maker_[static_cast<size_t>(right)] != kNever &&
         merges_.find(left, right).rank == kNoRank && parts_stay_apart(left, right);
}

bool MergeWindows::run(MergeWorkspace& workspace, std::vector<ModelToken>& symbols) const {
  if (!usable_) return false;
  std::vector<ModelToken>& done = workspace.done;
  std::vector<ModelToken>& window = workspace.window;
  done.clear();
  size_t at = 0;  // what is done reaches to here
  for (size_t size = kWindow; at < symbols.size();) {
    const size_t end = std::min(at + size, symbols.size());
    size_t begin = at;
    for (size_t again = 1;; again *= 2) {
      window.assign(symbols.begin() + static_cast<ptrdiff_t>(begin),
                    symbols.begin() + static_cast<ptrdiff_t>(end));
      merge_all(merges_, workspace, window);
      if (done.empty() || stay_apart(done.back().id, window.front().id)) break;
      if (end - begin > kLargestWindow) return false;
      // Tokens before the window would have been joined with it: they are made again too.
      for (size_t i = 0; i < again && !done.empty(); ++i) {
        begin = back(symbols, begin, done.back().bytes);
        done.pop_back();
      }
    }
    size_t reached = end;
    size_t count = window.size();
    for (size_t i = 0; i < kTokensMadeAgain && end < symbols.size() && count > 1; ++i) {
      reached = back(symbols, reached, window[--count].bytes);
    }
    done.insert(done.end(), window.begin(), window.begin() + static_cast<ptrdiff_t>(count));
    if (reached <= at) {  // long tokens: they need a larger window
      size *= 2;
      if (size > kLargestWindow) return false;
    }
    at = reached;
  }
  symbols.swap(done);
  return true;
}

}  // namespace tessera

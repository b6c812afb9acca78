// The merges of long pieces, a window at a time: a heap of a whole piece leaves the processor's
// cache, and a text without blanks is one piece.
//
// Where every merge comes after those that make what it joins (the list of any trained tokenizer),
// merging is the same as going through the list once, each merge wherever it applies. Two
// neighbours of the result then say by themselves whether they belong beside each other: what they
// were made of, and in which order, shows every pair that ever stood at their border. So tokens
// whose neighbours all fit are those of the whole piece, however they were found.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizer/model/merging.h"
#include "data/tokenizer/model/model.h"
#include "data/tokenizer/model/pair_table.h"

namespace tessera {

struct MergeRule {
  int32_t left = 0;
  int32_t right = 0;
  int32_t id = 0;  // what they become
};

// Immutable: any thread may use it, with a workspace of its own.
class MergeWindows {
 public:
  // Pieces with more symbols are worth it.
  static constexpr size_t kLeastSymbols = 40;

  // `merges` are `rules`, whose place in the list is their rank; `first_symbols`: ids that a piece
  // may begin as.
  MergeWindows(const PairTable& merges, std::vector<MergeRule> rules,
               const std::vector<int32_t>& first_symbols);

  // As merge_all(). False, and `symbols` as they were: these merges, or this text, are not made for
  // windows.
  [[nodiscard]] bool run(MergeWorkspace& workspace, std::vector<ModelToken>& symbols) const;

 private:
  [[nodiscard]] bool is_ascending() const;
  void find_makers();
  // Would nothing be joined across the border of two tokens?
  [[nodiscard]] bool stay_apart(int32_t left, int32_t right) const;
  // The same before they were whole: whether they join themselves is not asked.
  [[nodiscard]] bool parts_stay_apart(int32_t left, int32_t right) const;

  const PairTable& merges_;
  std::vector<MergeRule> rules_;
  // By id: the rule that makes the token, whatever stands beside it.
  std::vector<int32_t> maker_;
  bool usable_ = false;
};

}  // namespace tessera

// Byte-pair encodings from text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/common/string_table.h"
#include "data/tokenizer/pattern/known_split.h"

namespace tessera {

struct TrainBpeOptions {
  int64_t vocab_size = 8192;  // special tokens and the 256 bytes included
  KnownSplit split = KnownSplit::kLlama3;
  std::vector<std::string> special_tokens = {"<|endoftext|>"};  // the first ids
  // Throws ConfigError.
  void validate() const;
};

// How often pieces occur in texts; long ones are counted in parts. Beyond some millions of
// different ones, or 64 MiB of them, those that were seen once are forgotten, so memory is bounded.
class PieceCounts {
 public:
  explicit PieceCounts(KnownSplit split) : split_(split) {}
  // A whole text, or a part that ends where a line does.
  void add(std::string_view text);
  // Pieces and counts, in the order in which the pieces came.
  [[nodiscard]] std::vector<std::pair<std::string_view, int64_t>> sorted() const;

 private:
  void count(std::string_view piece);
  void forget();
  KnownSplit split_;
  StringTable places_;
  std::vector<int64_t> counts_;
  size_t bytes_ = 0;  // of all pieces
  std::string valid_;
};

struct TrainedBpe {
  std::vector<std::string> tokens;                  // bytes; the place is the id
  size_t num_special = 0;                           // of these, the first
  std::vector<std::pair<int32_t, int32_t>> merges;  // ids, first to be merged first
};

// Joins the pair of neighbours that occurs most, of equals that with the lowest ids, until the
// vocabulary is full or no pair occurs twice. The same texts give the same tokens.
TrainedBpe train_bpe(const TrainBpeOptions& options, const PieceCounts& counts);

}  // namespace tessera

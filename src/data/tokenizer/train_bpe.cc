#include "data/tokenizer/train_bpe.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "base/error.h"
#include "base/text/text.h"
#include "data/tokenizer/common/byte_alphabet.h"
#include "data/tokenizer/model/vocabulary.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr size_t kMostPieces = 6'000'000;
constexpr size_t kMostPieceBytes = size_t{64} << 20;  // of all of them
constexpr size_t kLongestPiece = 512;                 // bytes; longer ones are counted in parts

using Pair = std::pair<int32_t, int32_t>;

uint64_t key_of(Pair pair) {
  return uint64_t{static_cast<uint32_t>(pair.first)} << 32 | static_cast<uint32_t>(pair.second);
}
struct KeyHash {
  size_t operator()(uint64_t key) const {
    return static_cast<size_t>((key ^ key >> 29) * 0x9E3779B97F4A7C15 >> 8);
  }
};

struct Occurrences {
  int64_t count = 0;
  std::vector<uint32_t> words;  // that have had the pair
};

struct Candidate {
  int64_t count = 0;
  Pair pair;
  // The order of a heap whose top is the best one.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

struct Word {
  std::vector<int32_t> ids;
  int64_t count = 0;
};

class Trainer {
 public:
  Trainer(const PieceCounts& counts, int32_t first_byte) {
    for (const auto& [piece, count] : counts.sorted()) {
      if (piece.size() < 2) continue;
      Word word;
      word.count = count;
      for (const char c : piece) word.ids.push_back(first_byte + static_cast<unsigned char>(c));
      words_.push_back(std::move(word));
    }
    for (uint32_t i = 0; i < words_.size(); ++i) {
      const Word& word = words_[i];
      for (size_t k = 0; k + 1 < word.ids.size(); ++k) {
        count_pair({word.ids[k], word.ids[k + 1]}, word.count, i);
      }
    }
    for (const auto& [key, occurrences] : pairs_) offer(key, occurrences);
  }

  // The best pair, or a count below 2.
  Candidate best() {
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      heap_.pop();
      const int64_t now = pairs_[key_of(top.pair)].count;
      if (now == top.count) return top;
      if (now > 1) heap_.push({now, top.pair});
    }
    return {};
  }

  // The pair stays as it is.
  void leave(Pair pair) { pairs_[key_of(pair)].count = 0; }

  void join(Pair pair, int32_t joined) {
    const std::vector<uint32_t> words = std::move(pairs_[key_of(pair)].words);
    pairs_.erase(key_of(pair));
    changed_.clear();
    for (const uint32_t word : words) join_in(word, pair, joined);
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const uint64_t key : changed_) {
      if (const auto found = pairs_.find(key); found != pairs_.end()) offer(key, found->second);
    }
  }

 private:
  void offer(uint64_t key, const Occurrences& occurrences) {
    if (occurrences.count < 2) return;
    heap_.push({occurrences.count,
                {static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & UINT32_MAX)}});
  }

  void count_pair(Pair pair, int64_t count, uint32_t word) {
    Occurrences& occurrences = pairs_[key_of(pair)];
    occurrences.count += count;
    if (count > 0 && (occurrences.words.empty() || occurrences.words.back() != word)) {
      occurrences.words.push_back(word);
    }
  }

  void join_in(uint32_t index, Pair pair, int32_t joined) {
    Word& word = words_[index];
    std::vector<int32_t>& ids = word.ids;
    const auto change = [&](int32_t left, int32_t right, int64_t count) {
      if (Pair{left, right} == pair) return;
      count_pair({left, right}, count, index);
      if (count > 0) changed_.push_back(key_of({left, right}));
    };
    size_t out = 0;
    for (size_t i = 0; i < ids.size();) {
      const bool here = i + 1 < ids.size() && ids[i] == pair.first && ids[i + 1] == pair.second;
      if (!here) {
        ids[out++] = ids[i++];
        continue;
      }
      // What was before, as it is by now, and what comes after, as it still is.
      if (out > 0) {
        change(ids[out - 1], pair.first, -word.count);
        change(ids[out - 1], joined, word.count);
      }
      if (i + 2 < ids.size()) {
        change(pair.second, ids[i + 2], -word.count);
        change(joined, ids[i + 2], word.count);
      }
      ids[out++] = joined;
      i += 2;
    }
    ids.resize(out);
  }

  std::vector<Word> words_;
  std::unordered_map<uint64_t, Occurrences, KeyHash> pairs_;
  std::priority_queue<Candidate> heap_;
  std::vector<uint64_t> changed_;
};

}  // namespace

void TrainBpeOptions::validate() const {
  const auto least = static_cast<int64_t>(256 + special_tokens.size());
  require_config(vocab_size >= least && vocab_size <= kMostTokens,
                 "a vocabulary of {}: it holds the 256 bytes and {}, so from {} to {}", vocab_size,
                 count_of(static_cast<int64_t>(special_tokens.size()), "special token"), least,
                 kMostTokens);
  for (size_t i = 0; i < special_tokens.size(); ++i) {
    const std::string& token = special_tokens[i];
    require_config(token.size() > 1 && valid_prefix(token) == token.size(),
                   "special token {}: expected two characters or more, as UTF-8", in_quotes(token));
    require_config(std::count(special_tokens.begin(), special_tokens.end(), token) == 1,
                   "special token {} is given twice", in_quotes(token));
  }
}

void PieceCounts::add(std::string_view text) {
  if (valid_prefix(text) != text.size()) {
    valid_.clear();
    append_lossy(text, valid_);
    text = valid_;
  }
  const uint8_t* table = character_table();
  for (size_t at = 0; at < text.size();) {
    const size_t end = end_of_piece(split_, text, at, table);
    while (end - at > kLongestPiece) {
      const size_t part = start_of_last(text.substr(at), kLongestPiece);
      count(text.substr(at, part));
      at += part;
    }
    count(text.substr(at, end - at));
    at = end;
  }
}

void PieceCounts::count(std::string_view piece) {
  int32_t place = places_.find(piece);
  if (place == kNoToken) {
    if (counts_.size() >= kMostPieces || bytes_ + piece.size() > kMostPieceBytes) forget();
    place = static_cast<int32_t>(counts_.size());
    places_.insert(piece, place);
    counts_.push_back(0);
    bytes_ += piece.size();
  }
  ++counts_[static_cast<size_t>(place)];
}

// Those that were seen once go; where that would be nearly all of them, only the newer half of
// those. Where hardly any were, all that are new go.
void PieceCounts::forget() {
  const size_t pieces = counts_.size();
  const auto once = static_cast<size_t>(std::count(counts_.begin(), counts_.end(), 1));
  const bool are_few = once < pieces / 8;
  const bool are_most = once >= pieces - pieces / 8;
  StringTable kept;
  std::vector<int64_t> counts;
  bytes_ = 0;
  places_.for_each([&](std::string_view piece, int32_t place) {
    const int64_t count = counts_[static_cast<size_t>(place)];
    const bool is_new = static_cast<size_t>(place) >= pieces / 2;
    if (are_few ? is_new : count == 1 && (is_new || !are_most)) return;
    kept.insert(piece, static_cast<int32_t>(counts.size()));
    counts.push_back(count);
    bytes_ += piece.size();
  });
  places_ = std::move(kept);
  counts_ = std::move(counts);
}

std::vector<std::pair<std::string_view, int64_t>> PieceCounts::sorted() const {
  std::vector<std::pair<std::string_view, int64_t>> pieces;
  pieces.reserve(counts_.size());
  places_.for_each([&](std::string_view piece, int32_t place) {
    pieces.emplace_back(piece, counts_[static_cast<size_t>(place)]);
  });
  return pieces;
}

TrainedBpe train_bpe(const TrainBpeOptions& options, const PieceCounts& counts) {
  options.validate();
  TrainedBpe trained;
  trained.tokens = options.special_tokens;
  trained.num_special = trained.tokens.size();
  for (int b = 0; b < 256; ++b) trained.tokens.emplace_back(1, static_cast<char>(b));
  Trainer trainer(counts, static_cast<int32_t>(trained.num_special));
  const auto is_special = [&](const std::string& written) {
    return std::count(options.special_tokens.begin(), options.special_tokens.end(), written) > 0;
  };
  // Two pairs may make the same text: it is one token, which the second pair is merged into too.
  StringTable known;
  for (size_t i = trained.num_special; i < trained.tokens.size(); ++i) {
    known.insert(trained.tokens[i], static_cast<int32_t>(i));
  }
  while (static_cast<int64_t>(trained.tokens.size()) < options.vocab_size) {
    const Candidate best = trainer.best();
    if (best.count < 2) break;
    const std::string text = trained.tokens[static_cast<size_t>(best.pair.first)] +
                             trained.tokens[static_cast<size_t>(best.pair.second)];
    if (is_special(in_byte_alphabet(text))) {
      trainer.leave(best.pair);
      continue;
    }
    int32_t id = known.find(text);
    if (id == kNoToken) {
      id = static_cast<int32_t>(trained.tokens.size());
      trained.tokens.push_back(text);
      known.insert(text, id);
    }
    trained.merges.push_back(best.pair);
    trainer.join(best.pair, id);
  }
  return trained;
}

}  // namespace tessera

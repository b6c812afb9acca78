#include "data/tokenizer/model/bpe.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "data/tokenizer/common/byte_alphabet.h"
#include "data/tokenizer/common/string_table.h"
#include "data/tokenizer/model/merge_windows.h"
#include "data/tokenizer/model/merging.h"
#include "data/tokenizer/model/pair_table.h"
#include "data/tokenizer/model/piece_cache.h"
#include "data/tokenizer/model/vocabulary.h"
#include "data/tokenizer/pattern/splitter.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581, which stands for a blank

// A piece that waits until its place in the cache has come from memory.
struct WaitingPiece {
  std::string_view piece;
  PieceCache::Key key;
};
constexpr size_t kMostWaiting = 32;

struct BpeWorkspace : ModelWorkspace {
  PieceCache cache;
  MergeWorkspace merging;
  std::vector<ModelToken> tokens;
  std::array<WaitingPiece, kMostWaiting> waiting;
};

class Bpe : public TokenModel {
 public:
  explicit Bpe(const BpeOptions& options);

  [[nodiscard]] size_t vocab_size() const override { return vocabulary_.size(); }
  [[nodiscard]] int32_t id_limit() const override { return vocabulary_.id_limit(); }
  [[nodiscard]] int32_t id_of(std::string_view token) const override {
    return vocabulary_.id_of(token);
  }
  [[nodiscard]] std::string_view token_of(int32_t id) const override {
    return vocabulary_.token_of(id);
  }
  [[nodiscard]] std::unique_ptr<ModelWorkspace> make_workspace() const override {
    return std::make_unique<BpeWorkspace>();
  }
  void encode(std::string_view piece, ModelWorkspace& workspace,
              std::vector<int32_t>& ids) const override;
  void encode_split(std::string_view text, KnownSplit split, ModelWorkspace& workspace,
                    std::vector<int32_t>& ids) const override;
  void encode_with_bytes(std::string_view piece, ModelWorkspace& workspace,
                         std::vector<ModelToken>& tokens) const override;

 private:
  void add_merges(const BpeOptions& options);
  void find_cut(const BpeOptions& options);
  template <KnownSplit kSplit>
  void encode_split_by(std::string_view text, BpeWorkspace& own, std::vector<int32_t>& ids) const;
  void encode_word(std::string_view word, BpeWorkspace& own, std::vector<int32_t>& ids) const;
  void encode_known(std::string_view word, const PieceCache::Key& key, BpeWorkspace& own,
                    std::vector<int32_t>& ids) const;
  void encode_unknown(std::string_view word, const PieceCache::Key* key, BpeWorkspace& own,
                      std::vector<int32_t>& ids) const;
  void merge_word(std::string_view word, BpeWorkspace& own) const;
  [[nodiscard]] const MergeWindows* windows() const;
  void first_symbols(std::string_view word, std::vector<ModelToken>& symbols) const;
  [[nodiscard]] int32_t id_of_bytes(std::string_view bytes) const {
    return raw_bytes_ ? pieces_.find(bytes) : vocabulary_.id_of(bytes);
  }

  Vocabulary vocabulary_;
  StringTable pieces_;  // with raw bytes: the bytes of the tokens
  PairTable merges_;
  std::vector<MergeRule> rules_;
  mutable std::once_flag windows_made_;
  mutable std::unique_ptr<const MergeWindows> windows_;
  std::array<int32_t, 256> byte_ids_{};      // of single bytes, with raw bytes
  std::array<int32_t, 256> fallback_ids_{};  // of <0x00> and so on
  int32_t unk_ = kNoToken;
  bool fuse_unk_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
  bool raw_bytes_ = false;
  bool cut_at_blanks_ = false;  // no token has a blank after something else
};

Bpe::Bpe(const BpeOptions& options)
    : vocabulary_(options.lists.vocab),
      fuse_unk_(options.fuse_unk),
      byte_fallback_(options.byte_fallback),
      ignore_merges_(options.ignore_merges),
      raw_bytes_(options.raw_bytes) {
  TESSERA_CHECK(!(raw_bytes_ && byte_fallback_), "raw bytes need no fallback");
  if (raw_bytes_) {
    pieces_.reserve(vocabulary_.size(), 8 * vocabulary_.size());
    vocabulary_.for_each([&](std::string_view token, int32_t id) {
      if (const std::optional<std::string> bytes = bytes_of(token)) pieces_.insert(*bytes, id);
    });
  }
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_ids_[static_cast<size_t>(b)] = pieces_.find(std::string_view(&byte, 1));
    fallback_ids_[static_cast<size_t>(b)] = vocabulary_.id_of(fmt::format("<0x{:02X}>", b));
  }
  if (options.unk_token) {
    unk_ = vocabulary_.id_of(*options.unk_token);
    require_config(unk_ != kNoToken, "unk_token {} is not in the vocabulary",
                   in_quotes(*options.unk_token));
  }
  add_merges(options);
  find_cut(options);
}

void Bpe::add_merges(const BpeOptions& options) {
  require_config(options.lists.merges.size() < kNoRank, "{} merges", options.lists.merges.size());
  merges_.reserve(options.lists.merges.size());
  rules_.reserve(options.lists.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < options.lists.merges.size(); ++rank) {
    const auto& [left, right] = options.lists.merges[rank];
    const auto known = [&, &left = left, &right = right](const std::string& token) {
      const int32_t id = vocabulary_.id_of(token);
      if (id != kNoToken) return id;  // no message is made for a good one: there are many
      throw ConfigError(fmt::format("merge {}, {} and {}: {} is not in the vocabulary", rank + 1,
                                    in_quotes(left), in_quotes(right), in_quotes(token)));
    };
    const int32_t first = known(left);
    const int32_t second = known(right);
    joined.assign(left).append(right);
    rules_.push_back({first, second, known(joined)});
    merges_.insert(first, second, {static_cast<uint32_t>(rank), rules_.back().id});
  }
}

// A text whose blanks only begin tokens can be cut before them: nothing is merged across. Words are
// then short, and most of them are known already.
void Bpe::find_cut(const BpeOptions& options) {
  cut_at_blanks_ = !raw_bytes_ && vocabulary_.id_of(kBlank) != kNoToken;
  if (!cut_at_blanks_) return;
  for (const auto& [left, right] : options.lists.merges) {
    const std::string token = left + right;
    for (size_t at = token.find(kBlank); at != token.npos; at = token.find(kBlank, at + 1)) {
      const bool leads = at == 0 || std::string_view(token).substr(0, at).ends_with(kBlank);
      if (!leads) cut_at_blanks_ = false;
    }
  }
}

// The end of the word that begins at `at`: before the next blank that follows something else.
size_t end_of_word(std::string_view piece, size_t at) {
  bool in_blanks = true;
  while (at < piece.size()) {
    const bool is_blank = piece.substr(at, kBlank.size()) == kBlank;
    if (is_blank && !in_blanks) return at;
    in_blanks = is_blank;
    at += is_blank ? kBlank.size() : code_point_at(piece, at).bytes;
  }
  return at;
}

void Bpe::encode(std::string_view piece, ModelWorkspace& workspace,
                 std::vector<int32_t>& ids) const {
  auto& own = static_cast<BpeWorkspace&>(workspace);
  if (piece.empty()) return;
  if (!cut_at_blanks_ || ignore_merges_) return encode_word(piece, own, ids);
  for (size_t at = 0; at < piece.size();) {
    const size_t end = end_of_word(piece, at);
    encode_word(piece.substr(at, end - at), own, ids);
    at = end;
  }
}

void Bpe::encode_split(std::string_view text, KnownSplit split, ModelWorkspace& workspace,
                       std::vector<int32_t>& ids) const {
  auto& own = static_cast<BpeWorkspace&>(workspace);
  if (!raw_bytes_) return TokenModel::encode_split(text, split, workspace, ids);
  switch (split) {
    case KnownSplit::kGpt2:
      return encode_split_by<KnownSplit::kGpt2>(text, own, ids);
    case KnownSplit::kLlama3:
      return encode_split_by<KnownSplit::kLlama3>(text, own, ids);
    case KnownSplit::kQwen2:
      return encode_split_by<KnownSplit::kQwen2>(text, own, ids);
  }
}

// Some pieces are split before the first of them is looked up: memory is asked for all of them at
// once.
template <KnownSplit kSplit>
void Bpe::encode_split_by(std::string_view text, BpeWorkspace& own,
                          std::vector<int32_t>& ids) const {
  const Splitter splitter(text, character_table());
  for (size_t at = 0; at < text.size();) {
    size_t count = 0;
    for (; count < kMostWaiting && at < text.size(); ++count) {
      const size_t end = splitter.end_of_piece<kSplit>(at);
      WaitingPiece& waiting = own.waiting[count];
      waiting.piece = text.substr(at, end - at);
      at = end;
      if (waiting.piece.size() > PieceCache::kMostBytes) continue;
      waiting.key = PieceCache::key_of(waiting.piece);
      own.cache.prefetch(waiting.key);
    }
    for (size_t i = 0; i < count; ++i) {
      const WaitingPiece& waiting = own.waiting[i];
      if (waiting.piece.size() > PieceCache::kMostBytes) {
        encode_unknown(waiting.piece, nullptr, own, ids);
      } else {
        encode_known(waiting.piece, waiting.key, own, ids);
      }
    }
  }
}

void Bpe::encode_word(std::string_view word, BpeWorkspace& own, std::vector<int32_t>& ids) const {
  if (word.size() > PieceCache::kMostBytes) return encode_unknown(word, nullptr, own, ids);
  encode_known(word, PieceCache::key_of(word), own, ids);
}

inline void Bpe::encode_known(std::string_view word, const PieceCache::Key& key, BpeWorkspace& own,
                              std::vector<int32_t>& ids) const {
  const std::span<const int32_t> known = own.cache.find(key);
  if (known.size() == 1) {
    ids.push_back(known.front());
  } else if (!known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
  } else {
    encode_unknown(word, &key, own, ids);
  }
}

// `key`: under which the cache is told, if at all.
void Bpe::encode_unknown(std::string_view word, const PieceCache::Key* key, BpeWorkspace& own,
                         std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  merge_word(word, own);
  for (const ModelToken& token : own.tokens) ids.push_back(token.id);
  if (key != nullptr) own.cache.put(*key, std::span<const int32_t>(ids).subspan(before));
}

void Bpe::encode_with_bytes(std::string_view piece, ModelWorkspace& workspace,
                            std::vector<ModelToken>& tokens) const {
  auto& own = static_cast<BpeWorkspace&>(workspace);
  if (piece.empty()) return;
  merge_word(piece, own);
  tokens.insert(tokens.end(), own.tokens.begin(), own.tokens.end());
}

void Bpe::merge_word(std::string_view word, BpeWorkspace& own) const {
  own.tokens.clear();
  if (ignore_merges_) {
    if (const int32_t id = id_of_bytes(word); id != kNoToken) {
      own.tokens.push_back({id, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  first_symbols(word, own.tokens);
  if (own.tokens.size() > MergeWindows::kLeastSymbols) {
    const MergeWindows* in_windows = windows();
    if (in_windows != nullptr && in_windows->run(own.merging, own.tokens)) return;
  }
  merge_all(merges_, own.merging, own.tokens);
}

// Made for the first long piece: most texts have none. Null where two tokens have one id: how a
// token came to be must follow from its id.
const MergeWindows* Bpe::windows() const {
  std::call_once(windows_made_, [&] {
    std::vector<bool> seen(static_cast<size_t>(vocabulary_.id_limit()));
    bool is_unique = true;
    std::vector<int32_t> first(fallback_ids_.begin(), fallback_ids_.end());
    first.push_back(unk_);
    if (raw_bytes_) first.assign(byte_ids_.begin(), byte_ids_.end());
    vocabulary_.for_each([&](std::string_view token, int32_t id) {
      is_unique = is_unique && !seen[static_cast<size_t>(id)];
      seen[static_cast<size_t>(id)] = true;
      const bool is_one = !token.empty() && code_point_at(token, 0).bytes == token.size();
      if (is_one && !raw_bytes_) first.push_back(id);
    });
    std::erase(first, kNoToken);
    if (is_unique) windows_ = std::make_unique<const MergeWindows>(merges_, rules_, first);
  });
  return windows_.get();
}

// One symbol for each byte or character; what is not in the vocabulary becomes bytes, the unknown
// token, or nothing.
void Bpe::first_symbols(std::string_view word, std::vector<ModelToken>& symbols) const {
  uint32_t unknown = 0;  // bytes that the unknown token at the end will stand for
  for (size_t at = 0; at < word.size();) {
    const uint32_t bytes = raw_bytes_ ? 1 : code_point_at(word, at).bytes;
    const std::string_view unit = word.substr(at, bytes);
    at += bytes;
    const int32_t id =
        raw_bytes_ ? byte_ids_[static_cast<unsigned char>(unit[0])] : vocabulary_.id_of(unit);
    if (id != kNoToken) {
      if (unknown > 0) symbols.push_back({unk_, unknown});
      unknown = 0;
      symbols.push_back({id, bytes});
      continue;
    }
    const auto fallback = [&](char byte) {
      return fallback_ids_[static_cast<unsigned char>(byte)];
    };
    if (byte_fallback_ && std::all_of(unit.begin(), unit.end(),
                                      [&](char byte) { return fallback(byte) != kNoToken; })) {
      for (const char byte : unit) symbols.push_back({fallback(byte), 1});
      continue;
    }
    if (unk_ == kNoToken) continue;
    if (unknown > 0 && !fuse_unk_) {
      symbols.push_back({unk_, unknown});
      unknown = 0;
    }
    unknown += bytes;
  }
  if (unknown > 0) symbols.push_back({unk_, unknown});
}

}  // namespace

std::unique_ptr<TokenModel> make_bpe(const BpeOptions& options) {
  return std::make_unique<Bpe>(options);
}

}  // namespace tessera

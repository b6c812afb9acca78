#include "data/tokenizer/model/unigram.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/text/text.h"
#include "data/tokenizer/common/byte_trie.h"
#include "data/tokenizer/model/piece_cache.h"
#include "data/tokenizer/model/vocabulary.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score

// The best way to a place of the piece.
struct Way {
  double score = 0;
  int32_t id = kNoToken;
  int64_t from = -1;  // -1: no way yet
};

struct UnigramWorkspace : ModelWorkspace {
  PieceCache cache;
  std::vector<Way> ways;
  std::vector<size_t> borders;
  std::vector<ModelToken> tokens;
};

std::vector<std::pair<std::string, int32_t>> with_places(const UnigramOptions& options) {
  std::vector<std::pair<std::string, int32_t>> tokens;
  tokens.reserve(options.vocab.size());
  for (const auto& [token, score] : options.vocab) {
    tokens.emplace_back(token, static_cast<int32_t>(tokens.size()));
  }
  return tokens;
}

class Unigram : public TokenModel {
 public:
  explicit Unigram(const UnigramOptions& options);

  // All places, as the reference library counts.
  [[nodiscard]] size_t vocab_size() const override { return scores_.size(); }
  [[nodiscard]] int32_t id_limit() const override { return vocabulary_.id_limit(); }
  [[nodiscard]] int32_t id_of(std::string_view token) const override {
    return vocabulary_.id_of(token);
  }
  [[nodiscard]] std::string_view token_of(int32_t id) const override {
    return vocabulary_.token_of(id);
  }
  [[nodiscard]] std::unique_ptr<ModelWorkspace> make_workspace() const override {
    return std::make_unique<UnigramWorkspace>();
  }
  void encode(std::string_view piece, ModelWorkspace& workspace,
              std::vector<int32_t>& ids) const override;
  void encode_with_bytes(std::string_view piece, ModelWorkspace& workspace,
                         std::vector<ModelToken>& tokens) const override;

 private:
  void find_ways(std::string_view piece, std::vector<Way>& ways) const;
  void add_token(std::string_view text, bool is_unknown, std::vector<ModelToken>& tokens) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  ByteTrie trie_;
  std::array<int32_t, 256> fallback_ids_{};
  double unknown_score_ = 0;
  int32_t unk_ = kNoToken;
  bool byte_fallback_ = false;
};

Unigram::Unigram(const UnigramOptions& options)
    : vocabulary_(with_places(options)), byte_fallback_(options.byte_fallback) {
  double lowest = std::numeric_limits<double>::infinity();
  scores_.reserve(options.vocab.size());
  for (const auto& [token, score] : options.vocab) {
    scores_.push_back(score);
    lowest = std::min(lowest, score);
    if (!token.empty()) trie_.insert(token, vocabulary_.id_of(token));
  }
  unknown_score_ = lowest - kUnknownPenalty;
  if (options.unk_id) {
    unk_ = *options.unk_id;
    require_config(unk_ >= 0 && static_cast<size_t>(unk_) < scores_.size(),
                   "unk_id is {} but the vocabulary has {} tokens", unk_, scores_.size());
  }
  for (int b = 0; b < 256; ++b) {
    fallback_ids_[static_cast<size_t>(b)] = vocabulary_.id_of(fmt::format("<0x{:02X}>", b));
  }
}

void Unigram::find_ways(std::string_view piece, std::vector<Way>& ways) const {
  ways.assign(piece.size() + 1, Way());
  const auto offer = [&](size_t from, size_t to, int32_t id, double score) {
    Way& way = ways[to];
    if (way.from >= 0 && score <= way.score) return;
    way = {score, id, static_cast<int64_t>(from)};
  };
  for (size_t at = 0; at < piece.size();) {
    const double here = ways[at].score;
    const uint32_t bytes = code_point_at(piece, at).bytes;
    bool covers_one = false;
    int32_t node = ByteTrie::kRoot;
    for (size_t end = at; end < piece.size();) {
      node = trie_.child(node, piece[end++]);
      if (node == ByteTrie::kNone) break;
      const int32_t id = trie_.value(node);
      if (id == ByteTrie::kNone) continue;
      offer(at, end, id, scores_[static_cast<size_t>(id)] + here);
      covers_one = covers_one || end - at == bytes;
    }
    if (!covers_one) {
      require(unk_ != kNoToken, "no token covers {}, and the tokenizer has no unk_id",
              in_quotes(piece.substr(at, bytes)));
      offer(at, at + bytes, unk_, unknown_score_ + here);
    }
    at += bytes;
  }
}

// A run of unknown characters is one token, unless its text is one, or all its bytes are.
void Unigram::add_token(std::string_view text, bool is_unknown,
                        std::vector<ModelToken>& tokens) const {
  const auto bytes = static_cast<uint32_t>(text.size());
  const int32_t id = vocabulary_.id_of(text);
  if (id != kNoToken || !is_unknown) return tokens.push_back({id, bytes});
  const auto fallback = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
  if (!byte_fallback_ || !std::all_of(text.begin(), text.end(),
                                      [&](char byte) { return fallback(byte) != kNoToken; })) {
    return tokens.push_back({unk_, bytes});
  }
  // All of them stand for the whole text; the first carries its bytes.
  for (size_t i = 0; i < text.size(); ++i) {
    tokens.push_back({fallback(text[i]), i == 0 ? bytes : 0});
  }
}

void Unigram::encode_with_bytes(std::string_view piece, ModelWorkspace& workspace,
                                std::vector<ModelToken>& tokens) const {
  auto& own = static_cast<UnigramWorkspace&>(workspace);
  if (piece.empty()) return;
  find_ways(piece, own.ways);
  std::vector<size_t>& borders = own.borders;  // from the end to the beginning
  borders.assign(1, piece.size());
  while (borders.back() > 0) {
    borders.push_back(static_cast<size_t>(own.ways[borders.back()].from));
  }
  size_t unknown = 0;  // bytes of unknown characters before the place reached
  const auto add_unknown = [&](size_t end) {
    if (unknown > 0) add_token(piece.substr(end - unknown, unknown), true, tokens);
    unknown = 0;
  };
  for (size_t i = borders.size() - 1; i > 0; --i) {
    const size_t from = borders[i];
    const size_t to = borders[i - 1];
    if (unk_ != kNoToken && own.ways[to].id == unk_) {
      unknown += to - from;
      continue;
    }
    add_unknown(from);
    add_token(piece.substr(from, to - from), false, tokens);
  }
  add_unknown(piece.size());
}

void Unigram::encode(std::string_view piece, ModelWorkspace& workspace,
                     std::vector<int32_t>& ids) const {
  auto& own = static_cast<UnigramWorkspace&>(workspace);
  if (piece.empty()) return;
  const bool is_short = piece.size() <= PieceCache::kMostBytes;
  PieceCache::Key key;
  if (is_short) {
    key = PieceCache::key_of(piece);
    if (const std::span<const int32_t> known = own.cache.find(key); !known.empty()) {
      ids.insert(ids.end(), known.begin(), known.end());
      return;
    }
  }
  own.tokens.clear();
  encode_with_bytes(piece, workspace, own.tokens);
  const size_t before = ids.size();
  for (const ModelToken& token : own.tokens) ids.push_back(token.id);
  if (is_short) own.cache.put(key, std::span<const int32_t>(ids).subspan(before));
}

}  // namespace

std::unique_ptr<TokenModel> make_unigram(const UnigramOptions& options) {
  return std::make_unique<Unigram>(options);
}

}  // namespace tessera

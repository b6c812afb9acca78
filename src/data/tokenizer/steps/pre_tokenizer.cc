#include "data/tokenizer/steps/pre_tokenizer.h"

#include <utility>

#include "base/error.h"
#include "base/text/printable.h"
#include "data/tokenizer/common/byte_alphabet.h"
#include "data/tokenizer/common/metaspace.h"
#include "data/tokenizer/pattern/pattern.h"
#include "data/tokenizer/pattern/split_pieces.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

// A step that looks at one piece at a time.
class PieceByPiece : public PreTokenizer {
 public:
  void apply(std::vector<TextPiece>& pieces) const override {
    std::vector<TextPiece> out;
    out.reserve(pieces.size());
    for (TextPiece& piece : pieces) {
      if (piece.token) {
        out.push_back(std::move(piece));
      } else {
        apply_to(std::move(piece), out);
      }
    }
    pieces = std::move(out);
  }

 protected:
  virtual void apply_to(TextPiece piece, std::vector<TextPiece>& out) const = 0;
};

class Split : public PieceByPiece {
 public:
  Split(std::unique_ptr<const Pattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

 protected:
  void apply_to(TextPiece piece, std::vector<TextPiece>& out) const override {
    std::vector<Part> parts;
    pattern_->find(piece.text, parts);
    for (Part& part : parts) part.is_match = part.is_match != invert_;
    split_piece(piece, parts, behavior_, out);
  }

 private:
  std::unique_ptr<const Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Every character with a bit of the table is a match of its own.
class SplitAtBit : public PieceByPiece {
 public:
  SplitAtBit(uint8_t bit, SplitBehavior behavior) : bit_(bit), behavior_(behavior) {}

 protected:
  void apply_to(TextPiece piece, std::vector<TextPiece>& out) const override {
    const uint8_t* table = character_table();
    std::vector<Part> parts;
    for (uint32_t at = 0; at < piece.text.size();) {
      const CodePoint point = code_point_at(piece.text, at);
      const bool is_match = (table[point.code] & bit_) != 0;
      if (is_match || parts.empty() || parts.back().is_match) {
        parts.push_back({at, at + point.bytes, is_match});
      } else {
        parts.back().end = at + point.bytes;
      }
      at += point.bytes;
    }
    split_piece(piece, parts, behavior_, out);
  }

 private:
  uint8_t bit_;
  SplitBehavior behavior_;
};

// Cuts into runs of word characters and runs of others; white space is left out.
class WordSplit : public PieceByPiece {
 protected:
  void apply_to(TextPiece piece, std::vector<TextPiece>& out) const override {
    const uint8_t* table = character_table();
    std::vector<Part> parts;
    uint8_t last = kSpaceBit;
    for (uint32_t at = 0; at < piece.text.size();) {
      const CodePoint point = code_point_at(piece.text, at);
      const auto kind = static_cast<uint8_t>(table[point.code] & (kSpaceBit | kWordBit));
      if (kind != kSpaceBit && kind == last) {
        parts.back().end = at + point.bytes;
      } else {
        parts.push_back({at, at + point.bytes, kind == kSpaceBit});
      }
      last = kind;
      at += point.bytes;
    }
    split_piece(piece, parts, SplitBehavior::kRemoved, out);
  }
};

class FixedLength : public PieceByPiece {
 public:
  explicit FixedLength(size_t length) : length_(length) {}

 protected:
  void apply_to(TextPiece piece, std::vector<TextPiece>& out) const override {
    uint32_t begin = 0;
    size_t count = 0;
    for (uint32_t at = 0; at < piece.text.size();) {
      at += code_point_at(piece.text, at).bytes;
      if (++count < length_ && at < piece.text.size()) continue;
      out.push_back(piece.slice(begin, at));
      begin = at;
      count = 0;
    }
  }

 private:
  size_t length_;  // in characters
};

class MetaspaceSplit : public PieceByPiece {
 public:
  explicit MetaspaceSplit(Metaspace options)
      : options_(std::move(options)),
        blank_(text_pattern(" ")),
        replacement_(text_pattern(options_.replacement)) {}

 protected:
  void apply_to(TextPiece piece, std::vector<TextPiece>& out) const override {
    std::vector<Part> parts;
    blank_->find(piece.text, parts);
    piece.replace(parts, options_.replacement);
    const bool prepends = options_.prepend == PrependScheme::kAlways ||
                          (options_.prepend == PrependScheme::kFirst && piece.begin == 0);
    if (prepends && !piece.text.starts_with(options_.replacement)) {
      piece.prepend(options_.replacement);
    }
    if (!options_.split) {
      if (!piece.text.empty()) out.push_back(std::move(piece));
      return;
    }
    replacement_->find(piece.text, parts);
    split_piece(piece, parts, SplitBehavior::kMergedWithNext, out);
  }

 private:
  Metaspace options_;
  std::unique_ptr<const Pattern> blank_;
  std::unique_ptr<const Pattern> replacement_;
};

class ByteLevel : public PieceByPiece {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex, bool keep_bytes)
      : add_prefix_space_(add_prefix_space), keep_bytes_(keep_bytes) {
    if (use_regex) pattern_ = regex_pattern(std::string(pattern_of(KnownSplit::kGpt2)));
  }

 protected:
  void apply_to(TextPiece piece, std::vector<TextPiece>& out) const override {
    if (add_prefix_space_ && !piece.text.starts_with(' ')) piece.prepend(" ");
    const size_t first = out.size();
    if (pattern_ != nullptr) {
      std::vector<Part> parts;
      pattern_->find(piece.text, parts);
      split_piece(piece, parts, SplitBehavior::kIsolated, out);
    } else if (!piece.text.empty()) {
      out.push_back(std::move(piece));
    }
    if (keep_bytes_) return;
    for (size_t i = first; i < out.size(); ++i) to_alphabet(out[i]);
  }

 private:
  static void to_alphabet(TextPiece& piece) {
    std::vector<Change> changes;
    changes.reserve(piece.text.size());
    for (const char c : piece.text) {
      changes.push_back({character_of_byte(static_cast<uint8_t>(c)), is_continuation(c) ? 1 : 0});
    }
    piece.transform(changes, 0);
  }

  std::unique_ptr<const Pattern> pattern_;
  bool add_prefix_space_;
  bool keep_bytes_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  void apply(std::vector<TextPiece>& pieces) const override {
    for (const auto& step : steps_) step->apply(pieces);
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> steps_;
};

bool is_byte_level(const JsonPlace& place) { return place.type() == "ByteLevel"; }

std::unique_ptr<const PreTokenizer> read_step(const JsonPlace& place, bool keep_bytes);

std::unique_ptr<const PreTokenizer> read_sequence(const JsonPlace& place, bool keep_bytes) {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  const std::vector<JsonPlace> places = place.at("pretokenizers").items();
  for (size_t i = 0; i < places.size(); ++i) {
    steps.push_back(read_step(places[i], keep_bytes && i + 1 == places.size()));
  }
  return std::make_unique<Sequence>(std::move(steps));
}

std::unique_ptr<const PreTokenizer> read_step(const JsonPlace& place, bool keep_bytes) {
  const std::string type = place.type();
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevel>(place.truth("add_prefix_space", true),
                                       place.truth("use_regex", true), keep_bytes);
  }
  if (type == "Split") {
    return std::make_unique<Split>(read_pattern(place.at("pattern")),
                                   read_behavior(place.at("behavior")), place.at("invert").truth());
  }
  if (type == "Metaspace") return std::make_unique<MetaspaceSplit>(read_metaspace(place));
  if (type == "Digits") {
    const bool each = place.at("individual_digits").truth();
    return std::make_unique<SplitAtBit>(
        kNumericBit, each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "WhitespaceSplit") {
    return std::make_unique<SplitAtBit>(kSpaceBit, SplitBehavior::kRemoved);
  }
  if (type == "Whitespace") return std::make_unique<WordSplit>();
  if (type == "Punctuation") {
    return std::make_unique<SplitAtBit>(kPunctuationBit, place.has("behavior")
                                                             ? read_behavior(place.at("behavior"))
                                                             : SplitBehavior::kIsolated);
  }
  if (type == "BertPreTokenizer") {
    std::vector<std::unique_ptr<const PreTokenizer>> steps;
    steps.push_back(std::make_unique<SplitAtBit>(kSpaceBit, SplitBehavior::kRemoved));
    steps.push_back(std::make_unique<SplitAtBit>(kPunctuationBit, SplitBehavior::kIsolated));
    return std::make_unique<Sequence>(std::move(steps));
  }
  if (type == "FixedLength") {
    const int64_t length = place.has("length") ? place.at("length").whole() : 5;
    if (length == 0) place.at("length").fail("expected at least 1");
    return std::make_unique<FixedLength>(static_cast<size_t>(length));
  }
  if (type == "CharDelimiterSplit" || type == "Delimiter") {
    std::string delimiter;
    append_utf8(place.at("delimiter").character(), delimiter);
    return std::make_unique<Split>(text_pattern(delimiter), SplitBehavior::kRemoved, false);
  }
  if (type == "Sequence") return read_sequence(place, keep_bytes);
  place.fail(fmt::format(
      "pre-tokenizer '{}' is not supported; known: ByteLevel, Split, Metaspace, Digits, "
      "Whitespace, WhitespaceSplit, Punctuation, CharDelimiterSplit, FixedLength, "
      "BertPreTokenizer, "
      "Sequence",
      shortened(type)));
}

// ByteLevel alone, or after one split by a known pattern.
std::optional<DirectSplit> direct_split(const JsonPlace& place) {
  if (is_byte_level(place)) {
    DirectSplit direct;
    if (place.truth("use_regex", true)) direct.split = KnownSplit::kGpt2;
    direct.add_prefix_space = place.truth("add_prefix_space", true);
    return direct;
  }
  if (place.type() != "Sequence") return std::nullopt;
  const std::vector<JsonPlace> steps = place.at("pretokenizers").items();
  const bool is_pair = steps.size() == 2 && steps[0].type() == "Split" && is_byte_level(steps[1]);
  if (!is_pair || steps[1].truth("use_regex", true) || steps[1].truth("add_prefix_space", true) ||
      steps[0].at("invert").truth() ||
      read_behavior(steps[0].at("behavior")) != SplitBehavior::kIsolated ||
      !steps[0].at("pattern").has("Regex")) {
    return std::nullopt;
  }
  const auto known = known_split(steps[0].at("pattern").at("Regex").text());
  return known ? std::optional(DirectSplit{known, false}) : std::nullopt;
}

bool ends_in_byte_level(const JsonPlace& place) {
  if (is_byte_level(place)) return true;
  if (place.type() != "Sequence") return false;
  const std::vector<JsonPlace> steps = place.at("pretokenizers").items();
  return !steps.empty() && is_byte_level(steps.back());
}

}  // namespace

PreTokenization read_pre_tokenizer(const JsonPlace& place, bool model_takes_bytes) {
  if (place.is_null()) return {};
  PreTokenization result;
  result.ends_in_bytes = model_takes_bytes && ends_in_byte_level(place);
  result.steps = read_step(place, result.ends_in_bytes);
  if (result.ends_in_bytes) result.direct = direct_split(place);
  return result;
}

}  // namespace tessera

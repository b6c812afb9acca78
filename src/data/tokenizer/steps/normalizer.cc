#include "data/tokenizer/steps/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/printable.h"
#include "data/tokenizer/common/byte_alphabet.h"
#include "data/tokenizer/pattern/pattern.h"
#include "data/tokenizer/steps/normal_form.h"
#include "data/tokenizer/steps/precompiled.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

class ToNormalForm : public Normalizer {
 public:
  explicit ToNormalForm(NormalForm form) : form_(form) {}
  void apply(TextPiece& piece) const override {
    if (may_change(piece.text)) piece.transform(normalized(form_, piece.text), 0);
  }
  [[nodiscard]] bool may_change(std::string_view text) const override {
    return tessera::may_change(form_, text);
  }

 private:
  NormalForm form_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(TextPiece& piece) const override { piece.prepend(prefix_); }
  [[nodiscard]] bool may_change(std::string_view text) const override { return !text.empty(); }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(std::unique_ptr<const Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(TextPiece& piece) const override {
    std::vector<Part> parts;
    pattern_->find(piece.text, parts);
    const bool any =
        std::any_of(parts.begin(), parts.end(), [](auto& part) { return part.is_match; });
    if (any) piece.replace(parts, content_);
  }
  [[nodiscard]] bool may_change(std::string_view) const override { return true; }

 private:
  std::unique_ptr<const Pattern> pattern_;
  std::string content_;
};

bool is_space(uint32_t code) { return (character_table()[code] & kSpaceBit) != 0; }

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(TextPiece& piece) const override {
    const std::string& text = piece.text;
    size_t begin = 0;
    size_t end = text.size();
    while (left_ && begin < end && is_space(code_point_at(text, begin).code)) {
      begin += code_point_at(text, begin).bytes;
    }
    while (right_ && end > begin && is_space(code_point_at(text, start_of_last(text, end)).code)) {
      end = start_of_last(text, end);
    }
    if (begin == 0 && end == text.size()) return;
    const uint32_t origin = piece.begin;
    piece = piece.slice(static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
    piece.begin = origin;  // what is gone still belongs to the piece
  }
  [[nodiscard]] bool may_change(std::string_view) const override { return true; }

 private:
  bool left_;
  bool right_;
};

// Each character becomes those that `map` appends.
template <typename Map>
void map_characters(TextPiece& piece, const Map& map) {
  std::vector<Change> changes;
  changes.reserve(piece.text.size());
  for (size_t at = 0; at < piece.text.size();) {
    const CodePoint point = code_point_at(piece.text, at);
    map(point, at, changes);
    at += point.bytes;
  }
  piece.transform(changes, 0);
}

// utf8proc 2.8 knows Unicode 15, the reference library 17.
struct NewerLower {
  uint32_t first;
  uint32_t last;
  uint32_t lower;  // of the first
};
constexpr NewerLower kNewerLower[] = {{0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},
                                      {0xA7CC, 0xA7CC, 0xA7CD},    {0xA7CE, 0xA7CE, 0xA7CF},
                                      {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},
                                      {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},
                                      {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};

uint32_t lower_of(uint32_t code) {
  for (const NewerLower& row : kNewerLower) {
    if (code >= row.first && code <= row.last) return row.lower + (code - row.first);
  }
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

class Lowercase : public Normalizer {
 public:
  void apply(TextPiece& piece) const override {
    map_characters(piece, [](CodePoint point, size_t, std::vector<Change>& out) {
      if (point.code == 0x130) {  // the one that becomes two: i and a dot above
        out.push_back({'i', 0});
        out.push_back({0x307, 1});
        return;
      }
      out.push_back({lower_of(point.code), 0});
    });
  }
  [[nodiscard]] bool may_change(std::string_view) const override { return true; }
};

// Leaves out the characters that `keep` is false for.
template <typename Keep>
void filter_characters(TextPiece& piece, const Keep& keep) {
  std::vector<Change> changes;
  changes.reserve(piece.text.size());
  size_t num_first = 0;  // that are gone before any that stays
  for (size_t at = 0; at < piece.text.size();) {
    const CodePoint point = code_point_at(piece.text, at);
    at += point.bytes;
    if (keep(point.code)) {
      changes.push_back({point.code, 0});
    } else if (changes.empty()) {
      ++num_first;
    } else {
      --changes.back().change;
    }
  }
  piece.transform(changes, num_first);
}

class StripAccents : public Normalizer {
 public:
  void apply(TextPiece& piece) const override {
    filter_characters(piece,
                      [](uint32_t code) { return (character_table()[code] & kMarkBit) == 0; });
  }
  [[nodiscard]] bool may_change(std::string_view text) const override {
    return std::any_of(text.begin(), text.end(), [](char c) { return is_continuation(c); });
  }
};

// The spaces of neural machine translation: control characters go, other breaks become blanks.
class Nmt : public Normalizer {
 public:
  void apply(TextPiece& piece) const override {
    filter_characters(piece, [](uint32_t code) {
      const bool is_break =
          code == 0 || code == '\t' || code == '\n' || code == '\f' || code == '\r';
      return (code >= 0x20 || is_break) && code != 0x7F && code != 0x8F && code != 0x9F;
    });
    map_characters(piece, [](CodePoint point, size_t, std::vector<Change>& out) {
      out.push_back({is_blank(point.code) ? ' ' : point.code, 0});
    });
  }
  [[nodiscard]] bool may_change(std::string_view) const override { return true; }

 private:
  static bool is_blank(uint32_t code) {
    if (code >= 0x200B && code <= 0x200F) return true;
    constexpr uint32_t kBlanks[] = {'\t',   '\n',   '\f',   '\r',   0x1680,
                                    0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD};
    return std::find(std::begin(kBlanks), std::end(kBlanks), code) != std::end(kBlanks);
  }
};

class ToByteAlphabet : public Normalizer {
 public:
  void apply(TextPiece& piece) const override {
    const std::string text = piece.text;
    map_characters(piece, [&](CodePoint point, size_t at, std::vector<Change>& out) {
      for (uint32_t i = 0; i < point.bytes; ++i) {
        out.push_back({character_of_byte(static_cast<uint8_t>(text[at + i])), i > 0 ? 1 : 0});
      }
    });
  }
  [[nodiscard]] bool may_change(std::string_view) const override { return true; }
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Normalizer>> steps)
      : steps_(std::move(steps)) {}
  void apply(TextPiece& piece) const override {
    for (const auto& step : steps_) step->apply(piece);
  }
  [[nodiscard]] bool may_change(std::string_view text) const override {
    return std::any_of(steps_.begin(), steps_.end(),
                       [&](const auto& step) { return step->may_change(text); });
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> steps_;
};

}  // namespace

std::unique_ptr<const Normalizer> read_normalizer(const JsonPlace& place) {
  if (place.is_null()) return nullptr;
  const std::string type = place.type();
  if (type == "NFC") return std::make_unique<ToNormalForm>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<ToNormalForm>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<ToNormalForm>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<ToNormalForm>(NormalForm::kNfkd);
  if (type == "Prepend") return std::make_unique<Prepend>(place.at("prepend").text());
  if (type == "Replace") {
    return std::make_unique<Replace>(read_pattern(place.at("pattern")), place.at("content").text());
  }
  if (type == "Strip") {
    return std::make_unique<Strip>(place.at("strip_left").truth(), place.at("strip_right").truth());
  }
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "Precompiled") return read_precompiled(place);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "ByteLevel") return std::make_unique<ToByteAlphabet>();
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const Normalizer>> steps;
    for (const JsonPlace& step : place.at("normalizers").items()) {
      if (step.is_null()) step.fail("expected a normalizer");
      steps.push_back(read_normalizer(step));
    }
    return std::make_unique<Sequence>(std::move(steps));
  }
  place.fail(fmt::format(
      "normalizer '{}' is not supported; known: NFC, NFD, NFKC, NFKD, Precompiled, Nmt, Prepend, "
      "Replace, Strip, StripAccents, Lowercase, ByteLevel, Sequence",
      shortened(type)));
}

}  // namespace tessera

#include "data/tokenizer/unicode/grapheme.h"

#include <memory>

#include "data/tokenizer/unicode/grapheme_tables.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

using enum ClusterKind;

std::unique_ptr<ClusterKind[]> make_kinds() {
  auto kinds = std::make_unique<ClusterKind[]>(kCodePoints);
  const auto mark = [&](uint32_t first, uint32_t last, ClusterKind kind) {
    for (uint32_t code = first; code <= last; ++code) kinds[code] = kind;
  };
  for (const ClusterRanges& table : cluster_ranges()) {
    for (const CharacterRange range : table.ranges) mark(range.first, range.last, table.kind);
  }
  mark(0, 0, kControl);
  mark('\r', '\r', kCarriageReturn);
  mark('\n', '\n', kLineFeed);
  mark(0x200C, 0x200C, kNonJoiner);
  mark(0x200D, 0x200D, kJoiner);
  mark(0x1F1E6, 0x1F1FF, kRegional);
  for (uint32_t code = 0xAC00; code <= 0xD7A3; ++code) {
    kinds[code] = (code - 0xAC00) % 28 == 0 ? kSyllable : kClosedSyllable;
  }
  return kinds;
}

ClusterKind kind_of(uint32_t code) {
  static const std::unique_ptr<ClusterKind[]> kinds = make_kinds();
  return kinds[code];
}

bool is_control(ClusterKind kind) {
  return kind == kControl || kind == kCarriageReturn || kind == kLineFeed;
}

// Whether two characters of Hangul are of one syllable (rules GB6 to GB8).
bool joins_hangul(ClusterKind before, ClusterKind after) {
  const bool after_vowel = before == kVowel || before == kSyllable;
  const bool after_trailing = before == kTrailing || before == kClosedSyllable;
  if (after == kVowel) return before == kLeading || after_vowel;
  if (after == kTrailing) return after_vowel || after_trailing;
  const bool begins = after == kLeading || after == kSyllable || after == kClosedSyllable;
  return before == kLeading && begins;
}

// What of a cluster decides on its next character.
class Cluster {
 public:
  explicit Cluster(ClusterKind first) { add(first); }

  [[nodiscard]] bool joins(ClusterKind next) const {
    if (last_ == kCarriageReturn) return next == kLineFeed;
    if (is_control(last_) || is_control(next)) return false;
    if (next == kExtend || next == kLinker || next == kNonJoiner || next == kJoiner ||
        next == kSpacingMark || last_ == kPrepend) {
      return true;
    }
    if (next == kConsonant && is_linked_) return true;
    if (next == kPictographic && is_joined_) return true;
    if (next == kRegional && last_ == kRegional) return num_regional_ % 2 == 1;
    return joins_hangul(last_, next);
  }

  void add(ClusterKind next) {
    // A consonant, then linkers and what extends: the next consonant belongs to it.
    if (next == kConsonant) {
      after_consonant_ = true;
      is_linked_ = false;
    } else if (next == kLinker) {
      is_linked_ = after_consonant_;
    } else if (next != kExtend && next != kJoiner) {
      after_consonant_ = is_linked_ = false;
    }
    // A picture, what extends it and a joiner: the next picture belongs to it.
    const bool extends = next == kExtend || next == kLinker || next == kNonJoiner;
    is_joined_ = next == kJoiner && after_picture_;
    after_picture_ = next == kPictographic || (extends && after_picture_);
    num_regional_ = next == kRegional ? num_regional_ + 1 : 0;
    last_ = next;
  }

 private:
  ClusterKind last_ = kOther;
  bool after_consonant_ = false;
  bool is_linked_ = false;
  bool after_picture_ = false;
  bool is_joined_ = false;
  size_t num_regional_ = 0;
};

}  // namespace

size_t end_of_cluster(std::string_view text, size_t at) {
  CodePoint point = code_point_at(text, at);
  Cluster cluster(kind_of(point.code));
  for (at += point.bytes; at < text.size(); at += point.bytes) {
    point = code_point_at(text, at);
    const ClusterKind kind = kind_of(point.code);
    if (!cluster.joins(kind)) break;
    cluster.add(kind);
  }
  return at;
}

}  // namespace tessera

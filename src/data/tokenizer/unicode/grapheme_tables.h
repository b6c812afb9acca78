// How characters join to clusters, as the reference library has it; tools/record_unicode.js asked
// it.
#pragma once

#include <span>

#include "data/tokenizer/unicode/unicode_tables.h"

namespace tessera {

enum class ClusterKind : uint8_t {
  kOther,
  kControl,
  kExtend,
  kSpacingMark,
  kPrepend,
  kLeading,   // letters of Hangul: a consonant before a vowel,
  kVowel,     // the vowel,
  kTrailing,  // a consonant after it
  kPictographic,
  kConsonant,  // of scripts whose consonants a linker joins
  kLinker,     // extends as well
  // Known by their numbers; the others have a table each.
  kSyllable,        // a leading consonant and a vowel of Hangul in one
  kClosedSyllable,  // and a trailing one
  kCarriageReturn,
  kLineFeed,
  kJoiner,     // U+200D
  kNonJoiner,  // U+200C: extends, but ends what a linker joins
  kRegional,   // two make a flag
};

struct ClusterRanges {
  ClusterKind kind = ClusterKind::kOther;
  std::span<const CharacterRange> ranges;
};

std::span<const ClusterRanges> cluster_ranges();

}  // namespace tessera

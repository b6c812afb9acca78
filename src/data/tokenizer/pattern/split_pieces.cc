#include "data/tokenizer/pattern/split_pieces.h"

#include <algorithm>
#include <string>

#include "base/text/printable.h"

namespace tessera {
namespace {

std::vector<Part> merged_with_previous(std::span<const Part> parts) {
  std::vector<Part> out;
  bool after_match = false;
  for (const Part& part : parts) {
    if (part.is_match && !after_match && !out.empty()) {
      out.back().end = part.end;
    } else {
      out.push_back(part);
    }
    after_match = part.is_match;
  }
  return out;
}

std::vector<Part> merged_with_next(std::span<const Part> parts) {
  std::vector<Part> out;  // from the last to the first
  bool before_match = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->is_match && !before_match && !out.empty()) {
      out.back().begin = part->begin;
    } else {
      out.push_back(*part);
    }
    before_match = part->is_match;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Part> contiguous(std::span<const Part> parts) {
  std::vector<Part> out;
  bool after_match = false;
  for (const Part& part : parts) {
    if (part.is_match == after_match && !out.empty()) {
      out.back().end = part.end;
    } else {
      out.push_back(part);
    }
    after_match = part.is_match;
  }
  return out;
}

}  // namespace

SplitBehavior read_behavior(const JsonPlace& place) {
  const std::string name = place.text();
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  place.fail("behavior '" + shortened(name) +
             "' is not known: use Removed, Isolated, MergedWithPrevious, MergedWithNext or "
             "Contiguous");
}

void split_piece(const TextPiece& piece, std::span<const Part> parts, SplitBehavior behavior,
                 std::vector<TextPiece>& out) {
  std::vector<Part> joined;
  if (behavior == SplitBehavior::kMergedWithPrevious) joined = merged_with_previous(parts);
  if (behavior == SplitBehavior::kMergedWithNext) joined = merged_with_next(parts);
  if (behavior == SplitBehavior::kContiguous) joined = contiguous(parts);
  if (!joined.empty()) parts = joined;
  for (const Part& part : parts) {
    if (part.is_match && behavior == SplitBehavior::kRemoved) continue;
    if (part.begin < part.end) out.push_back(piece.slice(part.begin, part.end));
  }
}

}  // namespace tessera

// Placement rules written as text (RuleTexts), "tokens S0 R > S0": checked at compile time, parsed
// once at run time.
#pragma once

#include <optional>
#include <string_view>

#include "graph/op_table.h"

namespace tessera::ops {

constexpr std::optional<Placement> placement_of(std::string_view word) {
  if (word == "I") return invariant();
  if (word == "R") return replicate();
  if (word == "P") return partial();
  if (word == "M") return maximum();
  if (word == "S0") return split(0);
  if (word == "S1") return split(1);
  return std::nullopt;
}

constexpr std::optional<AxisSet> axes_of(std::string_view word) {
  if (word == "data") return sample_axes();
  if (word == "tokens") return data_axes();
  if (word == "cp") return AxisSet(Axis::kCp);
  return std::nullopt;
}

// Calls each(word) for words with one space between them.
template <class Each>
constexpr void for_each_word(std::string_view text, const Each& each) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    each(text.substr(at, end - at));
    at = end + 1;
  }
}

constexpr bool fits_signature(std::string_view text, const Signature& signature) {
  bool known = true;
  bool behind_arrow = false;
  size_t inputs = 0, outputs = 0;
  for_each_word(text, [&](std::string_view word) {
    if (word == ">") {
      behind_arrow = true;
    } else if (placement_of(word).has_value()) {
      ++(behind_arrow ? outputs : inputs);
    } else if (!axes_of(word).has_value()) {
      known = false;
    }
  });
  return known && signature.inputs().contains(inputs) && signature.outputs().contains(outputs);
}

constexpr bool rules_fit_signature(const OpRow& row) {
  return std::ranges::all_of(
      row.rules.all(), [&](std::string_view text) { return fits_signature(text, row.signature); });
}

inline PlacementRule parse_rule(std::string_view text) {
  PlacementRule rule;
  bool behind_arrow = false;
  for_each_word(text, [&](std::string_view word) {
    if (word == ">") {
      behind_arrow = true;
    } else if (const std::optional<AxisSet> axes = axes_of(word)) {
      rule.axes = *axes;
    } else {
      (behind_arrow ? rule.outputs : rule.inputs).push_back(placement_of(word).value());
    }
  });
  return rule;
}

}  // namespace tessera::ops

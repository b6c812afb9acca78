#include "collective/selection.h"

#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "collective/schedule.h"

namespace tessera {
namespace {

constexpr std::array<std::pair<char, int64_t>, 3> kUnits = {
    {{'k', 1 << 10}, {'m', 1 << 20}, {'g', 1 << 30}}};

template <typename Named, int kNum>
std::optional<Named> named(std::string_view name) {
  for (int i = 0; i < kNum; ++i) {
    if (name_of(static_cast<Named>(i)) == name) return static_cast<Named>(i);
  }
  return std::nullopt;
}

template <typename Named, int kNum>
std::string no_such(std::string_view name, std::string_view what) {
  std::array<std::string_view, kNum> known;
  for (int i = 0; i < kNum; ++i) known[static_cast<size_t>(i)] = name_of(static_cast<Named>(i));
  return suggestion(name, known, what);
}

// Reads one rule; every complaint quotes it.
class RuleParser {
 public:
  explicit RuleParser(std::string_view rule) : rule_(rule) {}

  SelectionRule parse(std::optional<CollectiveOp> previous) {
    const std::vector<std::string_view> fields = split(rule_, ':');
    SelectionRule rule;
    std::optional<CollectiveOp> op = previous;
    for (size_t i = 0; i + 1 < fields.size(); ++i) {
      const std::string_view field = trim(fields[i]);
      if (is_size(field)) {
        std::tie(rule.min_bytes, rule.end_bytes) = parse_sizes(field);
      } else if (is_ranks(field)) {
        std::tie(rule.min_ranks, rule.max_ranks) = parse_ranks(field);
      } else {
        op = named<CollectiveOp, kNumCollectiveOps>(field);
        if (!op)
          fail("there is no op '{}': {}", field,
               no_such<CollectiveOp, kNumCollectiveOps>(field, "ops"));
      }
    }
    if (!op) fail("the first rule must name an op, as in all_reduce:0-4k:doubling");
    rule.op = *op;
    rule.algorithm = parse_algorithm(trim(fields.back()));
    if (rule.algorithm != Algorithm::kAuto && !supports(rule.op, rule.algorithm)) {
      fail("{}", what_is_unsupported(rule.op, rule.algorithm));
    }
    return rule;
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw ConfigError(fmt::format("algorithm selection: in {}: {}", in_quotes(rule_),
                                  fmt::format(format, std::forward<Args>(args)...)));
  }

  static bool is_size(std::string_view field) {
    return !field.empty() && (field[0] >= '0' && field[0] <= '9');
  }
  static bool is_ranks(std::string_view field) {
    return field.size() > 1 && field[0] == 'n' && is_size(field.substr(1));
  }

  std::pair<int64_t, int64_t> parse_sizes(std::string_view field) const {
    const size_t dash = field.find('-');
    if (dash == std::string_view::npos) {
      fail("the range {} has no end: write {}-inf or {}-{}", field, field, field, "64k");
    }
    const int64_t begin = parse_bytes(field.substr(0, dash));
    const std::string_view last = field.substr(dash + 1);
    const int64_t end = last == "inf" ? SelectionRule::kNoLimit : parse_bytes(last);
    if (begin >= end) fail("the range {} is empty: its end is not included", field);
    return {begin, end};
  }

  std::pair<int, int> parse_ranks(std::string_view field) const {
    const std::string_view range = field.substr(1);
    const size_t dash = range.find('-');
    const int64_t least = parse_number(range.substr(0, dash));
    const std::string_view last = dash == std::string_view::npos ? range : range.substr(dash + 1);
    const int64_t most = last == "inf" ? std::numeric_limits<int>::max() : parse_number(last);
    if (least < 1 || most < least || most > std::numeric_limits<int>::max()) {
      fail("{} is no range of ranks: write n4 or n4-8", field);
    }
    return {static_cast<int>(least), static_cast<int>(most)};
  }

  [[nodiscard]] int64_t parse_bytes(std::string_view text) const {
    int64_t unit = 1;
    for (const auto& [letter, bytes] : kUnits) {
      if (text.empty() || (text.back() | 0x20) != letter) continue;
      unit = bytes;
      text.remove_suffix(1);
      break;
    }
    const int64_t number = parse_number(text);
    if (number > SelectionRule::kNoLimit / unit) fail("{} is too large", text);
    return number * unit;
  }

  [[nodiscard]] int64_t parse_number(std::string_view text) const {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0) {
      fail("'{}' is no size: write 4096, 4k, 1m, 2g or inf", text);
    }
    return number;
  }

  [[nodiscard]] Algorithm parse_algorithm(std::string_view name) const {
    const auto algorithm = named<Algorithm, kNumAlgorithms>(name);
    if (!algorithm) {
      fail("there is no algorithm '{}': {}", name,
           no_such<Algorithm, kNumAlgorithms>(name, "algorithms"));
    }
    return *algorithm;
  }

  std::string_view rule_;
};

std::string size_text(int64_t bytes) {
  if (bytes == SelectionRule::kNoLimit) return "inf";
  for (size_t i = kUnits.size(); i-- > 0;) {
    const auto [letter, unit] = kUnits[i];
    if (bytes > 0 && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, letter);
  }
  return std::to_string(bytes);
}

bool fits(const SelectionRule& rule, CollectiveOp op, int64_t bytes, int ranks) {
  return rule.op == op && bytes >= rule.min_bytes && bytes < rule.end_bytes &&
         ranks >= rule.min_ranks && ranks <= rule.max_ranks;
}

}  // namespace

Algorithm Selection::choose(CollectiveOp op, int64_t payload_bytes, int ranks) const {
  for (const SelectionRule& rule : rules) {
    if (!fits(rule, op, payload_bytes, ranks)) continue;
    if (rule.algorithm == Algorithm::kAuto) break;
    return rule.algorithm;
  }
  return choose_algorithm(op, payload_bytes, ranks);
}

Selection parse_selection(std::string_view text) {
  Selection selection;
  if (trim(text).empty()) return selection;
  std::optional<CollectiveOp> op;
  for (const std::string_view rule : split(text, '#')) {
    selection.rules.push_back(RuleParser(trim(rule)).parse(op));
    op = selection.rules.back().op;
  }
  return selection;
}

std::string to_text(const Selection& selection) {
  std::string text;
  for (const SelectionRule& rule : selection.rules) {
    text += fmt::format("{}{}:", text.empty() ? "" : "#", name_of(rule.op));
    if (rule.min_bytes != 0 || rule.end_bytes != SelectionRule::kNoLimit) {
      text += fmt::format("{}-{}:", size_text(rule.min_bytes), size_text(rule.end_bytes));
    }
    const bool open = rule.max_ranks == std::numeric_limits<int>::max();
    if (rule.min_ranks != 1 || !open) {
      text += fmt::format("n{}-{}:", rule.min_ranks, open ? "inf" : std::to_string(rule.max_ranks));
    }
    text += name_of(rule.algorithm);
  }
  return text;
}

}  // namespace tessera

#include "api/show/timeline/marks.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tessera {
namespace {

// Parts of the whole: from what nobody can see to what is narrow on a screen.
constexpr double kFinestPart = 1.0 / 16384, kCoarsestPart = 1.0 / 64;

bool are_joined(const Mark& last, const Mark& next, const Joined& how) {
  if (last.kind != next.kind || next.begin - last.end > how.below_s) return false;
  if (how.across_micro_batches && next.kind != MarkKind::kCommunication &&
      next.kind != MarkKind::kExposed) {
    return true;
  }
  return last.label == next.label &&
         (how.across_micro_batches || last.micro_batch == next.micro_batch);
}

std::vector<Mark> joined(const std::vector<Mark>& marks, const Joined& how, Labels& labels) {
  std::vector<Mark> result;
  for (const Mark& mark : marks) {
    if (mark.kind == MarkKind::kExposed && mark.end - mark.begin < how.below_s) continue;
    if (result.empty() || !are_joined(result.back(), mark, how)) {
      result.push_back(mark);
      continue;
    }
    Mark& last = result.back();
    last.end = mark.end;
    if (last.micro_batch == mark.micro_batch) continue;
    last.micro_batch = -1;
    if (last.label != mark.label) last.label = labels.of(std::string(name_of(mark.kind)));
  }
  return result;
}

std::vector<std::vector<MarkRow>> joined(const std::vector<std::vector<MarkRow>>& classes,
                                         const Joined& how, Labels& labels) {
  std::vector<std::vector<MarkRow>> result;
  for (const std::vector<MarkRow>& rows : classes) {
    result.emplace_back();
    for (const MarkRow& row : rows) {
      result.back().push_back({row.stream, joined(row.marks, how, labels)});
    }
  }
  return result;
}

}  // namespace

std::string_view name_of(MarkKind kind) {
  constexpr std::array<std::string_view, kNumMarkKinds> kNames = {
      "forward",   "backward", "input_grad", "weight_grad",
      "recompute", "update",   "exposed",    "communication"};
  return kNames[static_cast<size_t>(kind)];
}

int Labels::of(const std::string& text) {
  const auto [found, is_new] = places_.try_emplace(text, static_cast<int>(texts_.size()));
  if (is_new) texts_.push_back(text);
  return found->second;
}

size_t count_marks(const std::vector<std::vector<MarkRow>>& classes) {
  size_t count = 0;
  for (const std::vector<MarkRow>& rows : classes) {
    for (const MarkRow& row : rows) count += row.marks.size();
  }
  return count;
}

Joined join_marks(std::vector<std::vector<MarkRow>>& classes, double span_s, size_t most,
                  Labels& labels) {
  const size_t count = count_marks(classes);
  if (count <= most) return {};
  size_t least = count;
  for (const bool across : {false, true}) {
    for (double part = kFinestPart; part <= kCoarsestPart; part *= 2) {
      const Joined how{part * span_s, across};
      auto fewer = joined(classes, how, labels);
      least = count_marks(fewer);
      if (least > most) continue;
      classes = std::move(fewer);
      return how;
    }
  }
  throw ConfigError(
      fmt::format("the timeline has {} marks, and {} where neighbours of the same pass are joined, "
                  "more than most_marks = {}; use a larger most_marks, or fewer micro-batches "
                  "(global_batch)",
                  count, least, most));
}

nlohmann::ordered_json marks_json(const std::vector<MarkRow>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const MarkRow& row : rows) {
    nlohmann::ordered_json marks = nlohmann::ordered_json::array();
    for (const Mark& mark : row.marks) {
      marks.push_back(
          {mark.begin, mark.end, static_cast<int>(mark.kind), mark.label, mark.micro_batch});
    }
    json.push_back({{"stream", row.stream}, {"marks", std::move(marks)}});
  }
  return json;
}

nlohmann::ordered_json mark_kinds_json() {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (int kind = 0; kind < kNumMarkKinds; ++kind) {
    json.push_back(name_of(static_cast<MarkKind>(kind)));
  }
  return json;
}

}  // namespace tessera

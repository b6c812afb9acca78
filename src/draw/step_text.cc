#include "draw/step_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text/ranks_text.h"
#include "base/text/text.h"
#include "draw/letter_columns.h"
#include "draw/run_title.h"

namespace tessera {
namespace {

constexpr size_t kMostRows = 64;                      // classes that a timeline shows
constexpr size_t kLeastWidth = 12, kMostWidth = 160;  // of the time, where columns are given

std::string row_of(const RankActivity& activity, double makespan, size_t width) {
  LetterColumns columns(makespan, width);
  for (const Segment& piece : busy_pieces(activity)) {
    columns.add(letter_of(piece.kind), piece.begin, piece.end);
  }
  for (const Wait& w : activity.waits) columns.add(w.group.empty() ? '.' : '-', w.begin, w.end);
  // Passes of less than a column and a half.
  const bool in_turn = 3 * activity.segments.size() > 2 * width;
  return columns.str(in_turn);
}

std::string share_text(double seconds, double makespan) {
  return fmt::format("{} {:5.1f} %", seconds_text(seconds),
                     makespan > 0 ? 100 * seconds / makespan : 0);
}

bool is_lost(const StepTimeline& timeline, const std::vector<int>& ranks) {
  return timeline.lost.has_value() &&
         std::find(ranks.begin(), ranks.end(), timeline.lost->rank) != ranks.end();
}

// A rank that is lost waits for nothing.
void cross_out(std::string& row, double from, double makespan) {
  const double slice = makespan / static_cast<double>(row.size());
  for (size_t column = 0; column < row.size(); ++column) {
    if (static_cast<double>(column) * slice >= from) row[column] = 'x';
  }
}

std::string label_of(const StepTimeline& timeline, const std::vector<int>& ranks) {
  const std::string coords = shared_coords(timeline.mesh, ranks);
  return ranks_text(ranks) + (coords.empty() ? "" : " (" + coords + ")") +
         (is_lost(timeline, ranks) ? ", lost" : "");
}

nlohmann::ordered_json times_json(const std::map<std::string, double>& times) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [group, seconds] : times) json[group] = seconds;
  return json;
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds == 0) return "0";
  struct Unit {
    double seconds;
    std::string_view name;
  };
  constexpr std::array<Unit, 4> kUnits = {{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  for (const Unit& unit : kUnits) {
    const double value = seconds / unit.seconds;
    if (value < 0.9995 && &unit != &kUnits.back()) continue;
    const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, digits, unit.name);
  }
  return "0";
}

std::string step_timeline_text(const StepTimeline& timeline,
                               const std::vector<RankActivity>& activities, size_t width,
                               size_t columns) {
  const std::vector<ShownRow> all = rows_to_show(timeline, activities);
  const size_t rows = std::min(all.size(), kMostRows);
  std::vector<std::string> labels;
  size_t label_width = 0;
  for (size_t r = 0; r < rows; ++r) {
    labels.push_back(ranks_text(all[r].ranks));
    label_width = std::max(label_width, labels.back().size());
  }
  if (columns > 0) {
    const size_t left = columns - std::min(columns, label_width + 1);
    width = std::clamp(left, kLeastWidth, kMostWidth);
  }
  std::string text;
  for (size_t r = 0; r < rows; ++r) {
    std::string row = row_of(activities[all[r].of_class], timeline.makespan, width);
    if (is_lost(timeline, all[r].ranks)) cross_out(row, timeline.lost->at_s, timeline.makespan);
    text += fmt::format("{:<{}} {}\n", labels[r], label_width, row);
  }
  const std::string end = seconds_text(timeline.makespan);
  text += fmt::format("{:<{}} 0{:>{}}\n", "", label_width, end, width - 1);
  if (rows < all.size()) text += fmt::format("… and {} more kinds of rank\n", all.size() - rows);
  return text;
}

std::string step_table(const StepTimeline& timeline, const std::vector<RankActivity>& activities) {
  std::set<std::string> groups;
  for (const RankActivity& activity : activities) {
    for (const auto& [group, seconds] : activity.communication_s) groups.insert(group);
  }
  std::vector<TextTable::Column> columns = {{"ranks", Align::kLeft}, {"compute", Align::kRight}};
  for (const std::string& group : groups) columns.push_back({"exposed " + group, Align::kRight});
  columns.push_back({"idle", Align::kRight});
  TextTable table(std::move(columns));
  for (const ShownRow& shown : rows_to_show(timeline, activities)) {
    const RankActivity& activity = activities[shown.of_class];
    std::vector<std::string> row = {label_of(timeline, shown.ranks),
                                    share_text(activity.compute_s, timeline.makespan)};
    for (const std::string& group : groups) {
      const auto found = activity.exposed_s.find(group);
      const double exposed = found == activity.exposed_s.end() ? 0 : found->second;
      row.push_back(share_text(exposed, timeline.makespan));
    }
    row.push_back(share_text(activity.idle_s, timeline.makespan));
    table.add_row(std::move(row));
  }
  return table.str();
}

std::string lost_text(const StepTimeline& timeline) {
  if (!timeline.lost.has_value()) return "";
  std::string text = fmt::format("rank {} is lost after {}\n", timeline.lost->rank,
                                 seconds_text(timeline.lost->at_s));
  for (const StuckRank& stuck : timeline.stuck) {
    const RankTimeline& rank =
        timeline
            .ranks[static_cast<size_t>(timeline.classes.of_rank[static_cast<size_t>(stuck.rank)])];
    text += fmt::format("  {:>9}  {} waits for {}\n", seconds_text(stuck.since),
                        ranks_text(rank.ranks), stuck.waits_for);
  }
  if (timeline.stuck.empty()) text += "  nobody needs it any more in this step\n";
  return text;
}

nlohmann::ordered_json step_json(const StepTimeline& timeline,
                                 const std::vector<RankActivity>& activities) {
  nlohmann::ordered_json json;
  json["simulated_ranks"] = timeline.ranks.size();
  json["step_s"] = timeline.makespan;
  if (timeline.lost.has_value()) {
    json["lost"] = {{"rank", timeline.lost->rank}, {"at_s", timeline.lost->at_s}};
    json["stuck"] = nlohmann::ordered_json::array();
    for (const StuckRank& stuck : timeline.stuck) {
      json["stuck"].push_back({{"rank", stuck.rank},
                               {"since_s", stuck.since},
                               {"instruction", stuck.instruction},
                               {"waits_for_ranks", stuck.absent},
                               {"waits_for", stuck.waits_for}});
    }
  }
  json["classes"] = nlohmann::ordered_json::array();
  for (size_t c = 0; c < activities.size(); ++c) {
    const RankActivity& activity = activities[c];
    nlohmann::ordered_json entry;
    entry["ranks"] = timeline.ranks[c].ranks;
    entry["coords"] = shared_coords(timeline.mesh, timeline.ranks[c].ranks);
    entry["compute_s"] = activity.compute_s;
    entry["recompute_s"] = activity.recompute_s;
    entry["update_s"] = activity.update_s;
    entry["exposed_s"] = times_json(activity.exposed_s);
    entry["communication_s"] = times_json(activity.communication_s);
    entry["idle_s"] = activity.idle_s;
    json["classes"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace tessera

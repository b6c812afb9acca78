#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/text.h"
#include "published/comparison.h"

namespace tessera {
namespace {

std::string percent(double value) { return fmt::format("{:.1f}", value); }

// "-0.0" tells nobody anything.
double tidy(double value) { return value == 0 ? 0.0 : value; }

void add_rows(TextTable& table, const FamilyReport& family) {
  bool first = true;
  const std::string skipped = std::to_string(family.skipped.size());
  for (const QuantityReport& quantity : family.quantities) {
    const ErrorSummary& e = quantity.errors;
    const bool ranked = e.n >= 3;
    table.add_row(
        {first ? family.family : "", quantity.what, std::to_string(e.n), percent(e.mean_abs_pct),
         fmt::format("{:+.1f}", e.bias_pct), fmt::format("{:+.1f}", e.worst_pct),
         ranked ? fmt::format("{:.3f}", e.spearman) : "-",
         quantity.regret_sets > 0 ? percent(quantity.regret_pct) : "-", first ? skipped : ""});
    first = false;
  }
  if (first) table.add_row({family.family, "-", "0", "-", "-", "-", "-", "-", skipped});
}

nlohmann::ordered_json quantity_json(const QuantityReport& quantity) {
  nlohmann::ordered_json json = {{"quantity", quantity.what},
                                 {"n", quantity.errors.n},
                                 {"mean_abs_error_pct", tidy(quantity.errors.mean_abs_pct)},
                                 {"bias_pct", tidy(quantity.errors.bias_pct)},
                                 {"worst_pct", tidy(quantity.errors.worst_pct)},
                                 {"spearman", tidy(quantity.errors.spearman)}};
  if (quantity.regret_sets > 0) {
    json["regret_pct"] = tidy(quantity.regret_pct);
    json["regret_sets"] = quantity.regret_sets;
  }
  return json;
}

}  // namespace

std::string published_text(const PublishedReport& report, bool every_entry) {
  std::string text;
  if (every_entry) {
    TextTable entries({{"entry"},
                       {"quantity"},
                       {"part"},
                       {"measured", Align::kRight},
                       {"predicted", Align::kRight},
                       {"error %", Align::kRight}});
    for (const Comparison& c : report.comparisons) {
      entries.add_row({c.id, c.what, c.part, fmt::format("{:.6g}", c.measured),
                       fmt::format("{:.6g}", c.predicted), fmt::format("{:+.1f}", c.error_pct)});
    }
    text += entries.str() + "\n";
  }
  TextTable table({{"family"},
                   {"quantity"},
                   {"n", Align::kRight},
                   {"error %", Align::kRight},
                   {"bias", Align::kRight},
                   {"worst", Align::kRight},
                   {"spearman", Align::kRight},
                   {"regret %", Align::kRight},
                   {"skipped", Align::kRight}});
  for (const FamilyReport& family : report.families) add_rows(table, family);
  text += table.str();
  text += fmt::format(
      "error: mean of the absolute errors, in percent of the measurement (bubbles: in points); "
      "{} of {} entries skipped\n",
      report.skipped(), report.entries);
  for (const FamilyReport& family : report.families) {
    for (const SkippedEntry& entry : family.skipped) {
      text += fmt::format("skipped {}: {}\n", entry.id, entry.reason);
    }
  }
  return text;
}

nlohmann::ordered_json published_json(const PublishedReport& report) {
  nlohmann::ordered_json json;
  json["entries"] = report.entries;
  json["skipped"] = report.skipped();
  json["families"] = nlohmann::ordered_json::array();
  for (const FamilyReport& family : report.families) {
    nlohmann::ordered_json row = {{"family", family.family}};
    if (family.quantities.empty()) {
      row.update({{"n", 0}});
    } else {
      row.update(quantity_json(family.quantities.front()));
    }
    row["skipped"] = family.skipped.size();
    if (family.quantities.size() > 1) {
      row["also"] = nlohmann::ordered_json::array();
      for (size_t i = 1; i < family.quantities.size(); ++i) {
        row["also"].push_back(quantity_json(family.quantities[i]));
      }
    }
    row["skipped_entries"] = nlohmann::ordered_json::array();
    for (const SkippedEntry& entry : family.skipped) {
      row["skipped_entries"].push_back({{"id", entry.id}, {"reason", entry.reason}});
    }
    json["families"].push_back(row);
  }
  json["comparisons"] = nlohmann::ordered_json::array();
  for (const Comparison& c : report.comparisons) {
    json["comparisons"].push_back({{"id", c.id},
                                   {"quantity", c.what},
                                   {"part", c.part},
                                   {"measured", c.measured},
                                   {"predicted", c.predicted},
                                   {"error_pct", tidy(c.error_pct)}});
  }
  json["guesses"] = nlohmann::ordered_json::object();
  for (const auto& [id, guesses] : report.guesses) {
    for (const Guess& guess : guesses) json["guesses"][id][guess.what] = guess.taken;
  }
  return json;
}

}  // namespace tessera

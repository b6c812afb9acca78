// Published results against the cost model, family by family.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cost/step/estimate.h"
#include "published/entry.h"
#include "published/statistics.h"

namespace tessera {

struct Comparison {
  std::string id;
  std::string what;  // "step time", "memory", "bubble", "layer time", ...
  std::string part;  // which of several in one entry: "rank 3", "p 8, m 24, ZB-H1"
  double measured = 0;
  double predicted = 0;
  // In percent of the measurement; a bubble's in points, as it is a share already.
  double error_pct = 0;
};

struct SkippedEntry {
  std::string id;
  std::string reason;
};

struct QuantityReport {
  std::string what;
  ErrorSummary errors;
  // How much slower the run with the best prediction is than the fastest, in percent: the mean over
  // sets of three or more runs of one model, batch and number of devices.
  double regret_pct = 0;
  int regret_sets = 0;
};

struct FamilyReport {
  std::string family;
  // The first is what the family is judged by: bytes where an engine reported them, else step time.
  std::vector<QuantityReport> quantities;
  std::vector<SkippedEntry> skipped;
};

struct PublishedReport {
  std::vector<FamilyReport> families;  // in the order of the file
  std::vector<Comparison> comparisons;
  std::vector<std::pair<std::string, std::vector<Guess>>> guesses;  // by id
  int entries = 0;
  [[nodiscard]] int skipped() const;
};

// `file` as published-results.json is; ConfigError where it has no entries. Entries are priced with
// the engine that each names, unless `constants` says otherwise.
PublishedReport compare_published(const nlohmann::json& file,
                                  const PublishedConstants& constants = {});

std::string published_text(const PublishedReport& report, bool every_entry);
nlohmann::ordered_json published_json(const PublishedReport& report);

}  // namespace tessera

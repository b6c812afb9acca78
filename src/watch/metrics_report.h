// Several runs side by side: a table, JSON, CSV.
#pragma once

#include <functional>
#include <istream>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "watch/run_metrics.h"

namespace tessera {

// A row per run: last step, the key at the end and where it was lowest, tokens/s, time. `mark` puts
// before a name what tells its curve from the others.
std::string metrics_table(const std::vector<RunMetrics>& runs, const MetricsQuery& query,
                          const std::function<std::string(size_t run)>& mark);

// Sentences about what a reader should know of a run: lines that were passed over, NaN. One per
// line of the result.
std::vector<std::string> metrics_notes(const RunMetrics& run, const std::string& key);

nlohmann::ordered_json metrics_json(const std::vector<RunMetrics>& runs, const MetricsQuery& query);

// Every line of every run, unsmoothed, with every number: "run,step,time,loss,...". A number that a
// line lacks is an empty field. Reads each file once more, through `open`, and keeps none of it.
using OpenRun = std::function<std::unique_ptr<std::istream>(size_t run)>;
void write_metrics_csv(const std::vector<RunMetrics>& runs, const OpenRun& open, std::ostream& out);

}  // namespace tessera

// The request "search": the best way to split a training step over a cluster.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/surroundings.h"
#include "search/report.h"

namespace tessera {

struct SearchQuery {
  std::string model, cluster;  // names or files
  std::string recipe;  // whose model, cluster, batch and sequence are meant, where not given
  std::string engine = "tessera";
  int64_t global_batch = 0, seq_len = 0;
  int64_t batch_tokens = 0;         // the batch as so many tokens; 0: global_batch says it
  std::string objective = "time";   // time | memory | cost
  std::string attention = "flash";  // flash | unfused
  // Only plans with these; 0 (zero: -1): any.
  int64_t tp = 0, pp = 0, dp = 0, cp = 0, ep = 0, micro_batch = 0, zero = -1;
  std::string schedule = "";   // names of pipeline schedules, with commas; empty: any
  std::string recompute = "";  // none, selective, full, some, with commas; empty: any
  std::string system = "";     // whose settings must be able to say it; empty: none
  // "How many devices?": the training must end in so many days. 0: not asked.
  double deadline = 0;
  int64_t tokens = 0;
  int64_t top = 20;
  bool pareto = false;
  double usd_per_hour = -1;  // of a device; negative: the cluster's
  int64_t threads = 0;       // 0: as many as the surroundings say
};
SearchQuery search_query(const nlohmann::json& request);

// The command that asks the same.
std::string command_of(const SearchQuery& query);

// What the search itself is asked, for `model` as its name was resolved.
SearchRequest search_request(const SearchQuery& query, const ModelSpec& model,
                             const Surroundings& around);

// Throws ConfigError for what is missing or out of range.
SearchReport search(const SearchQuery& query, const Surroundings& around);

}  // namespace tessera

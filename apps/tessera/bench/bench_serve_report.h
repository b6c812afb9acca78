// What `tessera bench serve` measured, for people and machines. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench_serve_answer.h"
#include "bench/bench_serve_requests.h"

namespace tessera {

// Milliseconds that an answer may take; 0: as long as it wants.
struct ServiceLevel {
  double ttft_ms = 0;  // to the first text
  double tpot_ms = 0;  // for each token after it
  double whole_ms = 0;
  [[nodiscard]] bool is_asked_for() const { return ttft_ms > 0 || tpot_ms > 0 || whole_ms > 0; }
  [[nodiscard]] bool met_by(const AnswerSample& sample) const;
};
// "ttft=200,tpot=20,e2e=5000". Throws ConfigError.
ServiceLevel parse_service_level(std::string_view text);

// A percentile between the values around it, as numpy has it; 0 of none.
double percentile(const std::vector<double>& sorted, double percent);

struct Spread {
  int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0;
};
Spread spread_of(std::vector<double> values);

struct ServeReport {
  std::string target;
  LoadShape load;
  int64_t concurrency = 0;  // of a closed loop; most at once in an open one
  double seconds = 0;       // from the first request to the end of the last
  ServiceLevel level;
  std::vector<AnswerSample> samples;
  bool interrupted = false;
};

// How many requests failed in which way.
std::map<std::string, int64_t> failures_of(const std::vector<AnswerSample>& samples);

std::string serve_text(const ServeReport& report);
nlohmann::ordered_json serve_json(const ServeReport& report);

}  // namespace tessera

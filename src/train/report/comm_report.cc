#include "train/report/comm_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text/text.h"

namespace tessera {
namespace {

constexpr double kMilli = 1e3;

double per_step(double seconds, int64_t steps) {
  return kMilli * seconds / static_cast<double>(std::max<int64_t>(1, steps));
}

}  // namespace

nlohmann::ordered_json exposed_ms(std::span<const CommTime> before, std::span<const CommTime> now,
                                  int64_t steps) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (size_t i = 0; i < now.size(); ++i) {
    const double earlier = i < before.size() ? before[i].exposed_s : 0;
    json[now[i].group + " " + now[i].op] = per_step(now[i].exposed_s - earlier, steps);
  }
  return json;
}

double exposed_seconds(std::span<const CommTime> times) {
  double sum = 0;
  for (const CommTime& time : times) sum += time.exposed_s;
  return sum;
}

nlohmann::ordered_json comm_times_json(std::span<const CommTime> times, int64_t steps) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const CommTime& time : times) {
    json.push_back({{"group", time.group},
                    {"op", time.op},
                    {"busy_ms", per_step(time.busy_s, steps)},
                    {"exposed_ms", per_step(time.exposed_s, steps)}});
  }
  return json;
}

nlohmann::ordered_json merge_comm_times(const std::vector<nlohmann::ordered_json>& ranks) {
  struct Sum {
    int64_t ranks = 0;
    double busy = 0, exposed = 0, worst = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const nlohmann::ordered_json& rank : ranks) {
    for (const auto& row : rank) {
      Sum& sum = sums[{row.at("group").get<std::string>(), row.at("op").get<std::string>()}];
      ++sum.ranks;
      sum.busy += row.at("busy_ms").get<double>();
      sum.exposed += row.at("exposed_ms").get<double>();
      sum.worst = std::max(sum.worst, row.at("exposed_ms").get<double>());
    }
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& [name, sum] : sums) {
    const auto count = static_cast<double>(sum.ranks);
    json.push_back({{"group", name.first},
                    {"op", name.second},
                    {"busy_ms", sum.busy / count},
                    {"exposed_ms", sum.exposed / count},
                    {"exposed_ms_largest", sum.worst}});
  }
  return json;
}

std::string comm_time_table(const nlohmann::ordered_json& communication_time) {
  if (communication_time.empty()) return "";
  TextTable table({{"milliseconds per step", Align::kLeft},
                   {"communicating", Align::kRight},
                   {"compute waits", Align::kRight},
                   {"slowest rank", Align::kRight}});
  const auto number = [](const nlohmann::ordered_json& row, const char* key) {
    return fmt::format("{:.3f}", row.at(key).get<double>());
  };
  for (const auto& row : communication_time) {
    table.add_row(
        {fmt::format("{} {}", row.at("group").get<std::string>(), row.at("op").get<std::string>()),
         number(row, "busy_ms"), number(row, "exposed_ms"), number(row, "exposed_ms_largest")});
  }
  return "\n" + table.str();
}

}  // namespace tessera

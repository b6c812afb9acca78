#include "train/report/event_log.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "watch/event_file.h"

namespace tessera {
namespace {

// TensorBoard would draw both runs as one.
void remove_former(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> former;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kEventFilePrefix)) {
      former.push_back(entry->path());
    }
  }
  for (const fs::path& path : former) fs::remove(path, error);
}

// With those inside an object, as parse_metrics_line() names them.
void add_numbers(const nlohmann::ordered_json& object, const std::string& prefix,
                 MetricsLine& line) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_number()) line.values.emplace_back(prefix + key, value.get<double>());
    if (value.is_object() && prefix.empty()) add_numbers(value, key + ".", line);
  }
}

}  // namespace

EventLog::EventLog(const std::string& folder, double unix_time) {
  remove_former(folder);
  path_ = folder + "/" + event_file_name(unix_time);
  file_.open(path_, std::ios::binary | std::ios::trunc);
  file_ << event_file_head(unix_time) << std::flush;
  require(file_.good(), "cannot write '{}': is the disk full?", path_);
}

void EventLog::append(const nlohmann::ordered_json& metrics_line) {
  MetricsLine line;
  line.step = metrics_line.at("step").get<int64_t>();
  add_numbers(metrics_line, "", line);
  file_ << event_record(scalars_of(line)) << std::flush;
  require(file_.good(), "cannot write '{}': is the disk full?", path_);
}

}  // namespace tessera

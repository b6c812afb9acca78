// The history of a run as `GET api/runs/ID/series` gives it: read once, then only what is new.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "studio/run_files.h"
#include "studio/run_table.h"
#include "watch/history.h"

namespace tessera {

struct SeriesQuery {
  int64_t from = 0, to = INT64_MAX;  // steps
  int64_t points = 2000;
  std::vector<std::string> keys;  // none: all
};

// One file of metrics. One thread at a time.
class RunHistory {
 public:
  explicit RunHistory(std::string folder) : folder_(std::move(folder)) {}

  // Reads on for at most `budget`. False: there is more.
  bool update(std::chrono::milliseconds budget);
  [[nodiscard]] nlohmann::ordered_json series(const SeriesQuery& query) const;

 private:
  bool read_on(const RunFile& file);
  void take_line(std::string_view line, int64_t begin, const History::ReadLines& read);

  std::string folder_;
  History history_;
  std::string key_;      // of the file
  FileState file_;       // the file itself
  int64_t lines_ = 0;    // whole ones so far
  int64_t offset_ = 0;   // of the end of the last of them
  int64_t scanned_ = 0;  // further bytes, of a line that is too long to be read
  int64_t bad_lines_ = 0;
};

// Those of all runs, the latest of which are kept. Thread-safe.
class RunHistories {
 public:
  // Throws http::Refusal where too many ask at once.
  [[nodiscard]] nlohmann::ordered_json series(const RunEntry& run, const SeriesQuery& query);

 private:
  struct Kept {
    explicit Kept(const std::string& path) : path(path), history(path) {}
    std::string path;
    std::timed_mutex mutex;
    RunHistory history;
  };
  std::shared_ptr<Kept> find(const std::string& path);

  std::mutex mutex_;
  std::list<std::shared_ptr<Kept>> kept_;  // the one that was asked for last is the first
};

}  // namespace tessera

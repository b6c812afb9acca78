// All numbers of a run, at any zoom: steps in blocks, of which lowest, highest and mean are kept,
// so that a million steps take megabytes. What lies between is read again from the file. Pure: the
// file is an argument.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "watch/metrics_line.h"

namespace tessera {

// One key over steps. A place without a finite value has NaN in all three.
struct SeriesOfKey {
  std::vector<double> mean, low, high;
};

struct Series {
  std::vector<int64_t> step;  // of the last line of each point
  int64_t lines_per_point = 1;
  std::map<std::string, SeriesOfKey> keys;
};

struct NotFinite {
  int64_t step = 0;
  std::string key;
  double value = 0;
};

class History {
 public:
  static constexpr int64_t kLinesPerBlock = 64;
  static constexpr size_t kMostNotFinite = 1000, kMostEvents = 1000, kMostKeys = 1000;

  // Bytes of the file, of whole lines. Calls `take` with every line of metrics in them.
  using TakeLine = std::function<void(const MetricsLine&)>;
  using ReadLines = std::function<void(int64_t begin, int64_t end, const TakeLine& take)>;

  // `text` is the line that stands in bytes `begin` to `end` of the file. A step that was there
  // before, as after a run resumed, replaces what came from it on.
  void add(const MetricsLine& line, std::string_view text, int64_t begin, int64_t end,
           const ReadLines& read);

  // The steps from `from` to `to`, as at most `points` points (at least 2). Where steps are many it
  // may have as few as a quarter of them.
  [[nodiscard]] Series series(int64_t from, int64_t to, int64_t points,
                              const ReadLines& read) const;

  [[nodiscard]] bool empty() const { return blocks_.empty(); }
  [[nodiscard]] int64_t first_step() const { return empty() ? 0 : blocks_.front().first_step; }
  [[nodiscard]] int64_t last_step() const { return empty() ? 0 : blocks_.back().last_step; }
  [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }
  [[nodiscard]] const std::vector<NotFinite>& not_finite() const { return not_finite_; }  // first
  [[nodiscard]] const std::deque<std::string>& events() const { return events_; }         // last
  [[nodiscard]] const std::string& last_line() const { return last_line_; }  // of a step

 private:
  struct Stat {
    double sum = 0, low = 0, high = 0;
    int64_t count = 0;
    void add(const Stat& next);
  };
  struct Block {
    int64_t begin = 0, end = 0;  // in the file
    int64_t first_step = 0, last_step = 0;
    int64_t lines = 0;
    bool sealed = false;           // takes no more lines
    std::vector<Stat> stats = {};  // by key; keys that came later may be missing
    void add(const Block& next);
  };
  using Blocks = std::vector<Block>;

  [[nodiscard]] int key_of(const std::string& name);
  [[nodiscard]] Block block_of(const MetricsLine& line) const;
  // What of `block` lies in these steps, line by line.
  void read_within(const Block& block, int64_t from, int64_t to, const ReadLines& read,
                   Blocks& lines) const;
  void rewind(int64_t step, const ReadLines& read);
  [[nodiscard]] Series series_of(const Blocks& parts, int64_t points) const;

  std::vector<std::string> keys_;
  std::map<std::string, int, std::less<>> index_of_key_;
  Blocks blocks_;
  std::vector<NotFinite> not_finite_;
  std::deque<std::string> events_;
  std::string last_line_;
};

}  // namespace tessera

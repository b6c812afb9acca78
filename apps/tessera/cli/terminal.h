// Where output goes: data to `out`, progress and messages to `err`.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

namespace tessera {

struct TrainProgress;

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
  bool out_is_terminal = false;
  bool color_wanted = true;  // the environment's wish (NO_COLOR), under --color auto
  std::string color = "auto";
  bool quiet = false;  // no progress
  // Columns of the terminal at this moment, 0 where it has none; not set: not known.
  std::function<int()> out_columns = {};
  std::function<int()> err_columns = {};

  [[nodiscard]] bool colored() const;
};

// `text` in bold red when `console` shows colors.
std::string red(const Console& console, std::string_view text);

// "tessera: error: TEXT" on err.
void report_failure(Console& console, std::string_view text);

// `text` with control characters other than tab and newline as '?': a terminal would obey them.
std::string without_controls(std::string text);

// "41.2k", "3.15M": three significant digits.
std::string short_count(double value);
// "8s", "12m", "3h 5m"; "?" when it is not known.
std::string short_duration(double seconds);
// "step 120/1000 12% | loss 3.2100 | 41.2k tok/s | ETA 12m | lr 3.0e-04 | grad 1.20 | MFU 41%",
// without what is not known. `columns`: parts that matter least are left out where it would be
// wider; 0: it may be as wide as it is.
std::string progress_text(const TrainProgress& progress, int columns = 0);

// Shows progress on `err`: on a terminal one line redrawn at most 10 times a second, elsewhere one
// plain line every 10 seconds and for the last step. Silent when the console is quiet.
// One thread. finish() ends the redrawn line so that other text can follow.
class ProgressLine {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  explicit ProgressLine(Console& console, Clock clock = std::chrono::steady_clock::now);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(const TrainProgress& progress);
  void finish();

 private:
  Console& console_;
  Clock clock_;
  std::chrono::steady_clock::time_point shown_at_;
  bool line_open_ = false;
};

}  // namespace tessera

// Where output goes: data to `out`, progress and messages to `err`.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "cli/redrawn_line.h"

namespace tessera {

struct TrainProgress;

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
  bool out_is_terminal = false;
  bool color_wanted = true;  // the environment's wish (NO_COLOR, TERM), under --color auto
  std::string color = "auto";
  bool quiet = false;                        // no progress
  size_t out_columns = 0;                    // of the terminal; 0: none, lines may be long
  std::function<size_t()> err_columns = {};  // asked every time: windows change their size
  // Where `out` goes, without its filter: for bytes that are not meant as text. Null: `out`.
  std::ostream* raw_out = nullptr;

  [[nodiscard]] bool colored() const;
};

// `text` in bold red when `console` shows colors.
std::string red(const Console& console, std::string_view text);

// How wide a terminal is; 0: it does not say, or is none.
size_t columns_of(int file);

// `text` for `console.out`: as wide as its terminal, unchanged elsewhere.
std::string fitted(const Console& console, std::string_view text);

// `text` for `console.err`, in the same way.
std::string fitted_err(const Console& console, std::string_view text);

// As much of a line on `err` as its terminal has room for: the fields at the end are left out.
std::string one_line(const Console& console, const std::string& text);

// "tessera: error: TEXT" on err. Words that are absurdly long are cut, and nothing in it reaches
// the terminal as an escape sequence.
void report_failure(Console& console, std::string_view text);

// "41.2k", "3.15M": three significant digits.
std::string short_count(double value);
// "8s", "12m", "3h 5m"; "?" when it is not known.
std::string short_duration(double seconds);
// "step 120/1000 12% | loss 3.2100 | 41.2k tok/s | ETA 12m | lr 3.0e-04 | grad 1.20 | MFU 41%",
// without what is not known. `columns`: parts that matter least are left out where it would be
// wider; 0: it may be as wide as it is.
std::string progress_text(const TrainProgress& progress, int columns = 0);

// Shows the progress of a training run, with the fields that there is room for.
class ProgressLine {
 public:
  using Clock = RedrawnLine::Clock;
  explicit ProgressLine(Console& console, Clock clock = std::chrono::steady_clock::now)
      : line_(console, std::move(clock)) {}

  void update(const TrainProgress& progress);
  void finish() { line_.finish(); }

 private:
  RedrawnLine line_;
};

}  // namespace tessera

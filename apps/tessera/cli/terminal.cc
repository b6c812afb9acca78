#include "cli/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/printable.h"
#include "train/session/session.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kRedrawPeriod{100};
constexpr std::chrono::seconds kPlainPeriod{10};

// Texts that somebody else wrote may be of any length.
std::string with_short_words(std::string_view text) {
  constexpr size_t kLongestWord = 400;
  std::string result;
  while (!text.empty()) {
    const size_t end = text.find_first_of(" \n");
    const std::string_view word = text.substr(0, end);
    result += word.size() > kLongestWord ? shortened(word) : printable(word);
    if (end == std::string_view::npos) break;
    result += text[end];
    text.remove_prefix(end + 1);
  }
  return result;
}

}  // namespace

bool Console::colored() const {
  if (color == "always") return true;
  return color == "auto" && err_is_terminal && color_wanted;
}

std::string red(const Console& console, std::string_view text) {
  return console.colored() ? fmt::format("\033[1;31m{}\033[0m", text) : std::string(text);
}

void report_failure(Console& console, std::string_view text) {
  // One write: several ranks may share the stream.
  console.err << fmt::format("{} {}\n", red(console, "tessera: error:"), with_short_words(text))
              << std::flush;
}

std::string short_count(double value) {
  if (!std::isfinite(value) || value < 0) return "?";
  const char* unit = "";
  for (const char* larger : {"k", "M", "G", "T"}) {
    if (value < 999.5) break;
    value /= 1000;
    unit = larger;
  }
  const int decimals = *unit == '\0' || value >= 99.95 ? 0 : (value >= 9.995 ? 1 : 2);
  return fmt::format("{:.{}f}{}", value, decimals, unit);
}

std::string short_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const double minutes = std::round(seconds / 60);
  if (seconds < 59.5) return fmt::format("{:.0f}s", seconds);
  if (minutes < 60) return fmt::format("{:.0f}m", minutes);
  return fmt::format("{:.0f}h {:.0f}m", std::floor(minutes / 60), std::fmod(minutes, 60));
}

std::string progress_text(const TrainProgress& progress) {
  const int64_t percent = progress.steps > 0 ? 100 * progress.step / progress.steps : 0;
  return fmt::format("step {}/{} {}% | loss {:.4f} | {} tok/s | ETA {}", progress.step,
                     progress.steps, percent, progress.loss, short_count(progress.tokens_per_s),
                     short_duration(progress.eta_s));
}

// The first update is always shown.
ProgressLine::ProgressLine(Console& console, Clock clock)
    : console_(console), clock_(std::move(clock)), shown_at_(clock_() - kPlainPeriod) {}

ProgressLine::~ProgressLine() { finish(); }

void ProgressLine::update(const TrainProgress& progress) {
  if (console_.quiet) return;
  const auto now = clock_();
  const bool last = progress.step >= progress.steps;
  const bool redraw = console_.err_is_terminal;
  if (!last && now - shown_at_ < (redraw ? kRedrawPeriod : kPlainPeriod)) return;
  shown_at_ = now;
  // Carriage return and "erase to the end of the line".
  console_.err << (redraw ? "\r\033[K" : "") << progress_text(progress) << (redraw ? "" : "\n")
               << std::flush;
  line_open_ = redraw;
}

void ProgressLine::finish() {
  if (line_open_) console_.err << std::endl;
  line_open_ = false;
}

}  // namespace tessera

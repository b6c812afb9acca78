#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text/fit_width.h"
#include "base/text/printable.h"
#include "train/session/session.h"

namespace tessera {
namespace {

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

size_t columns_of(int file) {
  winsize size = {};
  return ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string fitted(const Console& console, std::string_view text) {
  return fit_width(text, console.out_columns);
}

std::string fitted_err(const Console& console, std::string_view text) {
  return fit_width(text, console.err_columns ? console.err_columns() : 0);
}

// One column stays free: terminals that wrap as soon as a line is full would leave a line behind.
std::string one_line(const Console& console, const std::string& text) {
  const size_t columns = console.err_columns ? console.err_columns() : 0;
  return columns > 1 ? cut_fields(text, columns - 1) : text;
}

void report_failure(Console& console, std::string_view text) {
  constexpr std::string_view kWho = "tessera: error:";
  const std::string lines =
      fitted_err(console, fmt::format("{} {}\n", kWho, with_short_words(text)));
  // One write: several ranks may share the stream.
  console.err << red(console, kWho) + lines.substr(kWho.size()) << std::flush;
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

std::string progress_text(const TrainProgress& progress, int columns) {
  const int64_t percent = progress.steps > 0 ? 100 * progress.step / progress.steps : 0;
  struct Part {
    std::string text;
    int matters;  // the least goes first
  };
  std::vector<Part> parts = {
      {fmt::format("step {}/{} {}%", progress.step, progress.steps, percent), 6},
      {fmt::format("loss {:.4f}", progress.loss), 5},
      {fmt::format("{} tok/s", short_count(progress.tokens_per_s)), 3},
      {fmt::format("ETA {}", short_duration(progress.eta_s)), 4},
      {fmt::format("lr {:.1e}", progress.lr), 0},
      {fmt::format("grad {:#.3g}", progress.grad_norm), 1}};
  if (progress.valid_loss > 0) {
    parts.push_back({fmt::format("valid {:.4f}", progress.valid_loss), 5});
  }
  if (progress.skipped) parts.push_back({"skipped", 7});
  if (progress.mfu > 0) parts.push_back({fmt::format("MFU {:.1f}%", progress.mfu * 100), 2});
  const auto joined = [&] {
    std::string line;
    for (const Part& part : parts) line += (line.empty() ? "" : " | ") + part.text;
    return line;
  };
  std::string line = joined();
  // A line that fills the terminal to its edge wraps on some.
  while (columns > 0 && static_cast<int>(line.size()) >= columns && parts.size() > 1) {
    parts.erase(std::min_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
      return a.matters < b.matters;
    }));
    line = joined();
  }
  return line;
}

void ProgressLine::update(const TrainProgress& progress) {
  line_.update([&](int columns) { return progress_text(progress, columns); },
               progress.step >= progress.steps);
}

}  // namespace tessera

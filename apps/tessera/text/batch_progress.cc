#include "text/batch_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"
#include "cli/terminal.h"

namespace tessera {
namespace {

std::string bar_of(const BatchProgress& progress, int columns) {
  constexpr int kLeast = 40, kMost = 40;  // columns of a terminal that has room for one; of a bar
  if (columns < kLeast || progress.total == 0) return "";
  const int64_t width = std::min(kMost, columns / 4);
  const int64_t full = width * progress.done / progress.total;
  return fmt::format("[{}{}] ", std::string(static_cast<size_t>(full), '#'),
                     std::string(static_cast<size_t>(width - full), '-'));
}

}  // namespace

std::string batch_text(const BatchProgress& progress, int columns) {
  std::string text = bar_of(progress, columns);
  const int64_t done_here = progress.done - progress.before;
  if (progress.total > 0) {
    text += fmt::format("{}/{} {}%", progress.done, progress.total,
                        100 * progress.done / progress.total);
    const auto left = static_cast<double>(progress.total - progress.done);
    const bool begun = done_here > 0 && progress.seconds > 0;
    if (left > 0) {
      text += fmt::format(
          " | ETA {}",
          begun ? short_duration(left * progress.seconds / static_cast<double>(done_here)) : "?");
    }
  } else {
    text += count_of(progress.done, "answer");
  }
  if (progress.seconds > 0) {
    text += fmt::format(" | {} tok/s",
                        short_count(static_cast<double>(progress.tokens) / progress.seconds));
  }
  if (progress.errors > 0) text += " | " + count_of(progress.errors, "error");
  return text;
}

}  // namespace tessera

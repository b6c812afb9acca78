#include "cli/redrawn_line.h"

#include <utility>

#include "cli/terminal.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kRedrawPeriod{100};
constexpr std::chrono::seconds kPlainPeriod{10};

}  // namespace

RedrawnLine::RedrawnLine(Console& console, Clock clock)
    : console_(console), clock_(std::move(clock)), shown_at_(clock_() - kPlainPeriod) {}

RedrawnLine::~RedrawnLine() { finish(); }

void RedrawnLine::update(const std::function<std::string(int columns)>& text, bool last) {
  if (console_.quiet) return;
  const auto now = clock_();
  const bool redraw = console_.err_is_terminal;
  if (!last && now - shown_at_ < (redraw ? kRedrawPeriod : kPlainPeriod)) return;
  shown_at_ = now;
  const int columns = redraw && console_.err_columns ? static_cast<int>(console_.err_columns()) : 0;
  const std::string line = text(columns);
  // Carriage return and "erase to the end of the line".
  console_.err << (redraw ? "\r\033[K" + one_line(console_, line) : line + "\n") << std::flush;
  line_open_ = redraw;
}

void RedrawnLine::finish() {
  if (line_open_) console_.err << std::endl;
  line_open_ = false;
}

}  // namespace tessera

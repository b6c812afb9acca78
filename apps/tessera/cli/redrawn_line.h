// A line on standard error that says how far something is: on a terminal redrawn at most 10 times a
// second, elsewhere a plain line every 10 seconds and at the end. Silent where the console is
// quiet. One thread. finish() ends the redrawn line so that other text can follow.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace tessera {

struct Console;

class RedrawnLine {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  explicit RedrawnLine(Console& console, Clock clock = std::chrono::steady_clock::now);
  ~RedrawnLine();
  RedrawnLine(const RedrawnLine&) = delete;
  RedrawnLine& operator=(const RedrawnLine&) = delete;

  // `text` is called where a line is due, with the columns that there are (0: it may be as wide as
  // it is). The first is shown, and where `last` is true.
  void update(const std::function<std::string(int columns)>& text, bool last);
  void finish();

 private:
  Console& console_;
  Clock clock_;
  std::chrono::steady_clock::time_point shown_at_;
  bool line_open_ = false;
};

}  // namespace tessera

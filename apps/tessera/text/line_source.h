// What somebody types, line by line: from a terminal or a pipe.
#pragma once

#include <string>

#include "cli/terminal.h"

namespace tessera {

class LineSource {
 public:
  struct Read {
    bool is_end = false;
    int signal = 0;  // that ended it; 0: none
    std::string line;
  };
  virtual ~LineSource() = default;
  // Waits for a line; `prompt` is shown where somebody sits before it.
  virtual Read next(const std::string& prompt) = 0;
};

// A file descriptor. On a terminal ^C asks to be pressed again; elsewhere it ends.
class TypedLines final : public LineSource {
 public:
  // `is_terminal`: prompts are shown, on console.err.
  TypedLines(int file, bool is_terminal, Console& console)
      : file_(file), is_terminal_(is_terminal), console_(console) {}
  Read next(const std::string& prompt) override;

 private:
  // A line that has come, without its end.
  bool take(Read& read);
  // False: there is no more.
  bool fill();

  int file_;
  bool is_terminal_;
  Console& console_;
  std::string typed_;
  bool at_end_ = false;
};

}  // namespace tessera

// A row of time as letters: of each slice of time the letter that has most of it. Those of a step
// are F forward, B backward, I input and W weight gradients, U update, - waits for communication,
// . idle.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class LetterColumns {
 public:
  // At most seven letters, of which the last is that of idle time.
  LetterColumns(double makespan, size_t width, std::string_view letters = "FBIWU-.")
      : letters_(letters),
        slice_(makespan > 0 ? makespan / static_cast<double>(width) : 1),
        amounts_(width) {}

  void add(char letter, double begin, double end) {
    const size_t kind = letters_.find(letter);
    auto column = static_cast<size_t>(begin / slice_);
    for (; column < amounts_.size(); ++column) {
      const double from = std::max(begin, static_cast<double>(column) * slice_);
      const double to = std::min(end, static_cast<double>(column + 1) * slice_);
      if (from >= end) break;
      if (to > from) amounts_[column][kind] += to - from;
    }
  }

  // Every column has the letter of what takes most of it. `in_turn`: where passes are narrower than
  // columns, those that come off badly in one column have the next, so that the letters are the
  // shares of the time.
  [[nodiscard]] std::string str(bool in_turn) const {
    std::string text;
    Amounts owed = {};
    for (const Amounts& amounts : amounts_) {
      for (size_t kind = 0; kind < amounts.size(); ++kind) {
        owed[kind] = amounts[kind] > 0 && in_turn ? owed[kind] + amounts[kind] : amounts[kind];
      }
      const auto most =
          static_cast<size_t>(std::max_element(owed.begin(), owed.end()) - owed.begin());
      text += owed[most] > 0 ? letters_[most] : '.';
      owed[most] -= slice_;
    }
    return text;
  }

 private:
  using Amounts = std::array<double, 7>;
  std::string_view letters_;
  double slice_;
  std::vector<Amounts> amounts_;
};

}  // namespace tessera

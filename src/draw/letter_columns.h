// A row of time as letters: F forward, B backward, I input and W weight gradients, U update, -
// waits for communication, . idle; of each slice of time the letter that has most of it.
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
  LetterColumns(double makespan, size_t width)
      : slice_(makespan > 0 ? makespan / static_cast<double>(width) : 1), amounts_(width) {}

  void add(char letter, double begin, double end) {
    const size_t kind = kLetters.find(letter);
    auto column = static_cast<size_t>(begin / slice_);
    for (; column < amounts_.size(); ++column) {
      const double from = std::max(begin, static_cast<double>(column) * slice_);
      const double to = std::min(end, static_cast<double>(column + 1) * slice_);
      if (from >= end) break;
      if (to > from) amounts_[column][kind] += to - from;
    }
  }

  [[nodiscard]] std::string str() const {
    std::string text;
    for (const auto& amounts : amounts_) {
      const auto most = std::max_element(amounts.begin(), amounts.end());
      text += *most > 0 ? kLetters[static_cast<size_t>(most - amounts.begin())] : '.';
    }
    return text;
  }

 private:
  static constexpr std::string_view kLetters = "FBIWU-.";
  double slice_;
  std::vector<std::array<double, kLetters.size()>> amounts_;
};

}  // namespace tessera

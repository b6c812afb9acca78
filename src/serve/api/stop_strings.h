// Texts at which an answer ends. They are found wherever tokens are cut, and are no part of it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::serve {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What is certain to belong to the answer; text that may be the beginning of a stop is held back.
  std::string push(std::string_view text);
  // What was held back.
  std::string finish() { return std::exchange(held_, {}); }
  // One has come: nothing follows.
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  // How many bytes at the end of what is held may begin a stop.
  [[nodiscard]] size_t may_begin() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace tessera::serve

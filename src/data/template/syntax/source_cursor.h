// A position in a template's text, with its line.
#pragma once

#include <algorithm>
#include <string_view>

#include "data/template/values/text_ops.h"

namespace tessera::jinja {

class SourceCursor {
 public:
  explicit SourceCursor(std::string_view source) : source_(source) {}

  [[nodiscard]] bool at_end() const { return at_ == source_.size(); }
  [[nodiscard]] std::string_view rest() const { return source_.substr(at_); }
  [[nodiscard]] bool sees(std::string_view text) const { return rest().starts_with(text); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : source_[at_]; }
  [[nodiscard]] char before() const { return at_ == 0 ? '\n' : source_[at_ - 1]; }
  [[nodiscard]] int line() const { return line_; }

  std::string_view take(size_t bytes) {
    const std::string_view taken = source_.substr(at_, bytes);
    line_ += static_cast<int>(std::count(taken.begin(), taken.end(), '\n'));
    at_ += taken.size();
    return taken;
  }
  bool take_if(std::string_view text) {
    if (!sees(text)) return false;
    take(text.size());
    return true;
  }
  void take_space() { take(rest().size() - strip(rest(), Side::kLeft).size()); }

 private:
  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace tessera::jinja

#include "serve/api/stop_strings.h"

#include <algorithm>

namespace tessera::serve {

size_t StopStrings::may_begin() const {
  size_t most = 0;
  const std::string_view held = held_;
  for (const std::string_view stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held.size()); length > most; --length) {
      if (held.substr(held.size() - length) == stop.substr(0, length)) {
        most = length;
        break;
      }
    }
  }
  return most;
}

std::string StopStrings::push(std::string_view text) {
  if (stopped_ || text.empty()) return "";
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  stopped_ = first != std::string::npos;
  const size_t certain = stopped_ ? first : held_.size() - may_begin();
  std::string out = held_.substr(0, certain);
  if (stopped_) {
    held_.clear();
  } else {
    held_.erase(0, certain);
  }
  return out;
}

}  // namespace tessera::serve

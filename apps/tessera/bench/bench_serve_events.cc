#include "bench/bench_serve_events.h"

#include <algorithm>

namespace tessera {

bool SseParser::feed(std::string_view bytes, const OnData& on_data) {
  for (const char c : bytes) {
    if (too_large_) return false;
    const bool second_half = after_return_ && c == '\n';
    after_return_ = c == '\r';
    if (second_half) continue;
    if (c == '\n' || c == '\r') {
      end_line(on_data);
    } else {
      line_ += c;
      too_large_ = line_.size() + data_.size() > most_bytes_;
    }
  }
  return !too_large_;
}

void SseParser::end_line(const OnData& on_data) {
  constexpr std::string_view kData = "data";
  if (line_.empty()) {
    if (has_data_) on_data(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  // Other fields, and comments, say nothing that is measured.
  std::string_view rest = line_;
  if (rest.starts_with(kData) && (rest.size() == kData.size() || rest[kData.size()] == ':')) {
    rest.remove_prefix(std::min(rest.size(), kData.size() + 1));
    if (rest.starts_with(' ')) rest.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += rest;
    has_data_ = true;
  }
  line_.clear();
}

}  // namespace tessera

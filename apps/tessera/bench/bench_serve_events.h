// Server-sent events out of a stream of bytes, cut anywhere. Bounded. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tessera {

class SseParser {
 public:
  // Told of the data of every event that has some: its lines, joined by line breaks.
  using OnData = std::function<void(std::string_view data)>;

  explicit SseParser(size_t most_bytes = size_t{1} << 20) : most_bytes_(most_bytes) {}

  // False: an event is larger than `most_bytes`. Whatever comes after it is not read any more.
  bool feed(std::string_view bytes, const OnData& on_data);
  // Whether bytes came that no event was made of: the stream broke off inside one.
  [[nodiscard]] bool is_inside_event() const { return !line_.empty() || has_data_; }

 private:
  void end_line(const OnData& on_data);

  size_t most_bytes_;
  std::string line_;  // that has not ended
  std::string data_;  // of the event that has not ended
  bool has_data_ = false;
  bool after_return_ = false;  // the last byte was one: a line feed belongs to it
  bool too_large_ = false;
};

}  // namespace tessera

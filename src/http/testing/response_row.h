// For tests: whether what a connection sent is what a client can read.
#pragma once

#include <string>
#include <string_view>

namespace tessera::http {

// Every response begins where the one before ended, and is whole. Bodies must not begin like a
// response: one of a HEAD has none.
inline bool is_row_of_responses(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!bytes.starts_with("HTTP/1.1 ")) return false;
    const size_t end = bytes.find("\r\n\r\n");
    if (end == std::string_view::npos) return false;
    const std::string_view head = bytes.substr(0, end);
    bytes.remove_prefix(end + 4);
    if (head.starts_with("HTTP/1.1 100")) continue;
    // A stream of events goes on until the connection ends.
    if (head.find("text/event-stream") != std::string_view::npos) return true;
    const size_t length = head.find("\r\nContent-Length: ");
    if (length == std::string_view::npos) return false;
    const size_t size = std::stoul(std::string(head.substr(length + 18, 20)));
    // The last one may be to a HEAD.
    if (bytes.empty()) return true;
    if (!bytes.starts_with("HTTP/1.1 ")) {
      if (size > bytes.size()) return false;
      bytes.remove_prefix(size);
    }
  }
  return true;
}

}  // namespace tessera::http

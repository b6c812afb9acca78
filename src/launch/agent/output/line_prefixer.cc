#include "launch/agent/output/line_prefixer.h"

namespace tessera {

void LinePrefixer::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const size_t room = kMaxLineBytes - pending_.size();
    if (newline <= room) {
      pending_ += bytes.substr(0, newline);
      bytes.remove_prefix(newline + 1);
      emit(out);
    } else if (bytes.size() <= room) {
      pending_ += bytes;
      return;
    } else {
      pending_ += bytes.substr(0, room);
      bytes.remove_prefix(room);
      emit(out);
    }
  }
}

void LinePrefixer::finish(std::string& out) {
  if (!pending_.empty()) emit(out);
}

void LinePrefixer::emit(std::string& out) {
  out.append(prefix_).append(pending_).push_back('\n');
  pending_.clear();
}

}  // namespace tessera

#include "http/event_source.h"

#include <utility>

namespace tessera::http {

std::string format_event(std::string_view id, std::string_view name, std::string_view data) {
  std::string text;
  text.reserve(data.size() + id.size() + name.size() + 32);
  if (!id.empty()) text.append("id: ").append(id).append("\n");
  if (!name.empty()) text.append("event: ").append(name).append("\n");
  do {
    const size_t end = data.find_first_of("\r\n");
    text.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == std::string_view::npos) break;
    const bool pair = data.substr(end, 2) == "\r\n";
    data.remove_prefix(end + (pair ? 2 : 1));
  } while (true);
  return text.append("\n");
}

bool EventQueue::push(std::string_view event) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  const bool taken = queued_.size() + event.size() <= most_bytes_;
  if (taken) {
    queued_ += event;
  } else {
    queued_.clear();
    closed_ = true;
  }
  // Under the lock: whoever is woken cannot be gone before wake_with() has said so.
  if (wake_) wake_();
  return taken;
}

void EventQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  if (wake_) wake_();
}

EventPart EventQueue::next() {
  const std::lock_guard lock(mutex_);
  return {.text = std::exchange(queued_, {}), .ended = closed_};
}

void EventQueue::wake_with(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  if (!wake) closed_ = true;  // nobody will ask again
  wake_ = std::move(wake);
}

}  // namespace tessera::http

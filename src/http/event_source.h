// What a text/event-stream sends, as the server asks for it. The server asks for the next part when
// the reader has taken the last one, so a slow reader costs one part of memory; one that takes
// nothing for the server's write timeout is dropped.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace tessera::http {

struct EventPart {
  std::string text;    // whole events, each ended by an empty line; empty: nothing new
  bool more = false;   // ask again at once, even where the text is empty
  bool ended = false;  // the stream ends after this text
};

class EventSource {
 public:
  EventSource() = default;
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;
  virtual ~EventSource() = default;

  // Called by one thread of the server at a time, soon again where there was text, else after the
  // server's poll interval or a wake. Returns without waiting for news. What it throws ends the
  // stream.
  virtual EventPart next() = 0;
  // Whether next() takes no time to speak of: then the thread of all sockets asks, and the stream
  // waits for no worker.
  [[nodiscard]] virtual bool is_quick() const { return false; }
  // A source that knows when it has news calls `wake`, from any thread: it returns at once and
  // calls nothing of the source. An empty one: the reader is gone, and there is nobody to wake.
  virtual void wake_with(std::function<void()> wake) { (void)wake; }
};

// One event: "id", "event" and "data" lines and the empty line. Names that are empty are left out;
// line breaks in `data` become further data lines.
std::string format_event(std::string_view id, std::string_view name, std::string_view data);

// Events that somebody pushes, of bounded size. Thread-safe.
class EventQueue : public EventSource {
 public:
  explicit EventQueue(size_t most_bytes) : most_bytes_(most_bytes) {}

  // False: the reader is too slow, or gone. What was queued is let go and the stream ends: a gap
  // in the middle would be worse.
  bool push(std::string_view event);
  void close();  // ends the stream after what is queued

  EventPart next() override;
  [[nodiscard]] bool is_quick() const override { return true; }
  void wake_with(std::function<void()> wake) override;

 private:
  const size_t most_bytes_;
  std::mutex mutex_;
  std::string queued_;
  bool closed_ = false;
  std::function<void()> wake_;
};

}  // namespace tessera::http

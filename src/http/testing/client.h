// A client of the loopback, for tests: says exactly what it is told to, and waits with a bound.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace tessera::http {

inline constexpr std::chrono::milliseconds kTestPatience{20'000};

class TestClient {
 public:
  // `receive_bytes`: that the system keeps of what is not read yet; 0: as it wants.
  explicit TestClient(uint16_t port, int receive_bytes = 0);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  // False: the server has ended the connection.
  bool send(std::string_view bytes);
  void end_sending();

  // All that came so far and was not taken; waits until `enough` holds for it, the connection ends
  // or the patience does.
  std::string read_until(const std::function<bool(std::string_view)>& enough,
                         std::chrono::milliseconds patience = kTestPatience);
  std::string read_to_end(std::chrono::milliseconds patience = kTestPatience);
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  int socket_;
  bool ended_ = false;
  std::string unread_;
};

struct TestResponse {
  int status = 0;
  std::string head, body;
  // The value of a field; empty: there is none.
  [[nodiscard]] std::string field(std::string_view name) const;
};
TestResponse parse_response(const std::string& bytes);

// One request of its own connection. `fields`: further lines, each ended by "\r\n".
TestResponse fetch(uint16_t port, const std::string& target, const std::string& fields = "",
                   const std::string& method = "GET");

// A stream of events as EventSource reads it: connects, and takes events as they come.
class TestEvents {
 public:
  struct Event {
    std::string id, name, data;
  };
  TestEvents(uint16_t port, const std::string& target, const std::string& last_id = "");

  // The next one. False: the stream ended, or patience did.
  bool next(Event& event, std::chrono::milliseconds patience = kTestPatience);
  [[nodiscard]] const std::string& last_id() const { return last_id_; }
  [[nodiscard]] bool ended() const { return client_.ended(); }

 private:
  TestClient client_;
  bool past_head_ = false;
  std::string text_, last_id_;
};

}  // namespace tessera::http

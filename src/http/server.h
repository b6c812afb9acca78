// An HTTP/1.1 server: one thread for all sockets, a few for handlers, none per reader. Keep-alive,
// limits on what a request may hold, a time limit on every read and write, text/event-stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "http/router.h"

namespace tessera::http {

struct ServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: any that is free
  size_t header_bytes = size_t{16} << 10;
  size_t body_bytes = size_t{1} << 20;
  int workers = 2;             // threads that run handlers and event sources
  int most_connections = 512;  // more are answered 503 and closed
  // Beyond them, for requests that are answered at once: each has one, soon, and nothing else.
  int spare_connections = 0;
  // For a whole request, from the moment that the connection is made or the last response is out.
  std::chrono::milliseconds read_timeout{30'000};
  // For a whole response, or a part of an event stream: a reader that is slower is dropped.
  std::chrono::milliseconds write_timeout{15'000};
  std::chrono::milliseconds poll_interval{200};     // of an event source that had nothing new
  std::chrono::milliseconds ping_interval{10'000};  // of silence in an event stream
  int event_buffer_bytes = 0;  // that the system keeps for a reader of events; 0: as it wants
  Fields fields;               // that every response gets
  // Requests whose handler returns at once: the thread of all sockets runs it, so that they wait
  // for no worker. Null: there are none.
  bool (*at_once)(const Request& request) = nullptr;
  // Requests whose handler may take long: threads of their own run it, so that others do not wait
  // for them. Null: there are none.
  bool (*is_slow)(const Request& request) = nullptr;
  int slow_workers = 1;
  WriteError write_error = &Response::error;  // what is refused before a handler sees it
};

class Server {
 public:
  // Listens from here on. `handler` is called by several threads at once and must not throw.
  // Throws Error where the address cannot be had.
  Server(const ServerOptions& options, Handler handler);
  // Streams end, requests at hand get `kStopGrace` to be answered.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] uint16_t port() const;
  [[nodiscard]] int connections() const;  // open now

  static constexpr std::chrono::milliseconds kStopGrace{1000};

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::http

// A response that is known later. Until then it costs the server a connection and no thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

namespace tessera::http {

struct Response;

// Thread-safe.
class LaterResponse {
 public:
  LaterResponse();
  LaterResponse(const LaterResponse&) = delete;
  LaterResponse& operator=(const LaterResponse&) = delete;
  virtual ~LaterResponse();

  // The response, once; it has no `later` itself. What is given after it, or when nobody waits any
  // more, is forgotten.
  void give(Response response);

  // For the server: `take` is called once, from any thread, here already where the response is
  // known; it returns at once and calls nothing of this. An empty one: the client is gone.
  void take_with(std::function<void(Response)> take);

 protected:
  // The client is gone, before there was a response. Called by a thread of the server: must return
  // soon.
  virtual void on_gone() {}

 private:
  std::mutex mutex_;
  std::function<void(Response)> take_;
  std::unique_ptr<Response> known_;
  bool done_ = false;
};

}  // namespace tessera::http

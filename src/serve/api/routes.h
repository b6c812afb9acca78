// The routes of a server that speaks OpenAI's API, over any Generator (docs/serving.md).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "http/router.h"
#include "http/server.h"
#include "serve/api/answer.h"
#include "serve/api/asked.h"
#include "serve/api/metrics.h"
#include "serve/api/readiness.h"
#include "serve/api/response_sinks.h"

namespace tessera::serve {

struct ApiOptions {
  ServedModel model;
  std::string api_key;        // empty: none is asked for
  bool loopback_only = true;  // only names of the loopback may stand in Host
  int workers = 2;            // threads that make text of tokens
  ReadinessOptions readiness;
  // Told of every request that was refused or begun, in one line without what it said.
  std::function<void(const std::string&)> log;
};

// Thread-safe.
class ServeApi {
 public:
  // The generator must outlive it, and a server must end before it. Throws ConfigError for a key
  // that cannot be one.
  ServeApi(Generator& generator, ApiOptions options);
  ~ServeApi();
  ServeApi(const ServeApi&) = delete;
  ServeApi& operator=(const ServeApi&) = delete;

  // For http::Server: limits, fields and errors. Address and port are the caller's.
  [[nodiscard]] http::ServerOptions server_options() const;
  [[nodiscard]] http::Handler handler();

  // Requests that are not answered yet.
  [[nodiscard]] int open() const { return open_->load(); }
  // Empty: it is. Else why not.
  [[nodiscard]] std::string why_not_ready() const { return readiness_.why_not(); }
  // Not ready from now on, and takes no new requests.
  void begin_drain();
  // Whether all requests were answered, and their clients took the answers, within `longest`.
  bool wait_until_answered(std::chrono::milliseconds longest) const;
  // Tells all that still wait that they get no more; soon they are answered, in this sense.
  void end_all() { desk_.end_all(); }

 private:
  http::Router make_router();
  http::Response handle(const http::Request& request);
  http::Response answer(const http::Request& request, Shape shape);
  [[nodiscard]] http::Response models() const;
  [[nodiscard]] http::Response model(const std::string& id) const;
  [[nodiscard]] http::Response ready() const;
  [[nodiscard]] http::Response metrics() const;

  Generator& generator_;
  const ApiOptions options_;
  const std::string id_start_;
  std::atomic<uint64_t> requests_{0};
  std::atomic<bool> draining_{false};
  const OpenResponse::Count open_ = std::make_shared<std::atomic<int>>(0);
  ServeMetrics metrics_;
  Readiness readiness_;
  AnswerDesk desk_;
  const http::Router router_;
};

}  // namespace tessera::serve

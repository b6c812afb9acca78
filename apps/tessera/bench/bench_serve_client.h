// The client of `tessera bench serve`: all requests on one thread, over connections that are kept
// while the server keeps them. Any server that speaks OpenAI's API over plain HTTP can be its
// target.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/bench_serve_answer.h"
#include "bench/bench_serve_requests.h"

namespace tessera {

// "http://127.0.0.1:8000", with or without "/v1" and what comes before it.
struct ServeTarget {
  std::string host;
  std::string port = "80";
  std::string prefix;  // of paths: "", "/engine"
  [[nodiscard]] std::string authority() const;
};
// Throws ConfigError, also for https.
ServeTarget parse_target_url(const std::string& url);

struct ClientOptions {
  ServeTarget target;
  std::string api_key;                         // empty: none
  int64_t requests = 0;                        // of the whole load; 0: as many as fit `seconds`
  double seconds = 0;                          // after which no request begins; 0: all requests
  int64_t concurrency = 1;                     // closed loop: always so many; open loop: at most
  std::chrono::milliseconds timeout{120'000};  // of one request
  std::function<bool()> stopped;               // asked now and then: whether to end early
};

struct ClientResult {
  std::vector<AnswerSample> samples;  // in the order in which they ended
  double seconds = 0;
  bool interrupted = false;
};

// Sends the load and waits for all answers: each within the timeout.
ClientResult run_load(LoadPlan& plan, const ClientOptions& options);

// The id of the first model that the server lists. Throws Error, saying what came instead.
std::string first_model(const ClientOptions& options);

}  // namespace tessera

// Requests that come and go, played through the scheduler that serves and a pipeline of ranks,
// every frame as long as it is predicted to take (frame_pricer.h): how long people wait, before
// anything is started. Pure: the same request gives the same times.
#pragma once

#include <cstdint>
#include <vector>

#include "serve/batch/played_frames.h"
#include "serve/predict/frame_pricer.h"

namespace tessera::serve {

struct ServeTraffic {
  double rate = 0;          // requests per second, as a Poisson process; 0: as concurrency says
  int64_t concurrency = 0;  // in all at a time: who has an answer asks again; 0: no bound
  int64_t prompt = 512, answer = 128;  // tokens, mean
  double spread = 0;                   // lengths are even within mean * (1 +- spread)
  int64_t requests = 200;
  uint64_t seed = 1;
};

// What one in two, and 95 and 99 in a hundred do not exceed.
struct Percentiles {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0;
};
Percentiles percentiles_of(std::vector<double> values);  // of none: 0

struct SimulatedServing {
  PlayedServing played;
  std::vector<PlayedRequest> requests;
  Percentiles ttft, tpot, itl, whole;  // seconds; TPOT of answers of more than one token
  double seconds = 0;                  // from the first arrival to the last token
  double answer_tokens_per_s = 0, prompt_tokens_per_s = 0, requests_per_s = 0;
  int64_t most_pages = 0;
  double mean_pages = 0;     // over time
  std::vector<double> busy;  // share of the time, by stage
};

// Requests of which one could not run alone are refused with a ConfigError, and so are loads of
// more than a million frames.
SimulatedServing simulate_serving(FramePricer& pricer, const ServeEstimate& estimate,
                                  const BatchOptions& options, const ServeTraffic& traffic);

}  // namespace tessera::serve

// What `tessera bench decode` measured, beside what memory and products can do. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/ranks/serve_plan.h"

namespace tessera {

// Bytes that a step must read: every weight once, and all keys and values.
struct StepBytes {
  int64_t weights = 0;
  int64_t cache = 0;
  [[nodiscard]] int64_t total() const { return weights + cache; }
};
// What one token for each of `batch` sequences that have `context` tokens reads. An embedding that
// is not the head too counts with the rows of the tokens alone, experts as many as tokens can
// choose.
StepBytes step_bytes(const serve::ServePlan& plan, int64_t batch, int64_t context);

// FLOPs of reading a prompt: products of every token, attention to the tokens before it, and the
// head of the last one.
double prompt_flops(const ModelSpec& model, int64_t length);

// The same work timed again and again, each time beside a probe of the limit.
struct TimedRounds {
  std::vector<double> seconds;
  std::vector<double> limit;  // bytes or FLOPs per second, in the same round

  [[nodiscard]] double median_s() const;
  // The median over rounds of `work` / seconds / limit.
  [[nodiscard]] double share(double work) const;
};

struct DecodeCase {
  int64_t batch = 0;
  StepBytes bytes;
  TimedRounds rounds;
  [[nodiscard]] double tokens_per_s() const;
};

struct DecodeReport {
  const serve::ServePlan& plan;
  std::string model;       // as it is called
  bool processes = false;  // ranks are, else threads
  int64_t context = 0;
  std::vector<DecodeCase> decode;
  int64_t prompt = 0;  // tokens; 0: none was measured
  TimedRounds prefill;
};

std::string decode_text(const DecodeReport& report);
nlohmann::ordered_json decode_json(const DecodeReport& report);

}  // namespace tessera

// The requests of a load, all decided before the first is sent: the same seed gives the same
// prompts, lengths and arrivals. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct LoadShape {
  uint64_t seed = 1;
  int64_t prompt_tokens = 512;  // mean
  int64_t answer_tokens = 256;  // mean
  double spread = 0;            // lengths are even within mean * (1 +- spread)
  double shared_prefix = 0;     // share of every prompt that all have in common
  double rate = 0;              // requests per second, as a Poisson process; 0: closed loop
  int64_t vocab = 256;          // token ids are below it
  bool text = false;            // words instead of token ids, about one for each token
  bool chat = false;
  bool ignore_end = true;  // answers have their length whatever the model says
  std::string model = {};  // that requests name
};

struct PlannedRequest {
  double at_s = 0;  // after the start; 0 in a closed loop
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;
};

// The number-th request, from 0. Arrivals are sums: asked for in order.
class LoadPlan {
 public:
  explicit LoadPlan(LoadShape shape) : shape_(std::move(shape)) {}

  [[nodiscard]] PlannedRequest next();
  // The body of that request.
  [[nodiscard]] std::string body(int64_t number, const PlannedRequest& request) const;
  [[nodiscard]] std::string path() const;  // "/v1/completions"

  [[nodiscard]] const LoadShape& shape() const { return shape_; }

 private:
  [[nodiscard]] int64_t length(int64_t mean, uint64_t stream) const;

  LoadShape shape_;
  int64_t number_ = 0;
  double at_s_ = 0;
};

}  // namespace tessera

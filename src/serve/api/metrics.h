// What /metrics says, in the text format of Prometheus: names are those of vLLM with tessera_ in
// place of vllm:, so that a dashboard needs one replacement.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "serve/generator.h"

namespace tessera::serve {

// How one request ended, as clients and metrics name it.
std::string_view name_of(FinishReason reason);

// Thread-safe.
class ServeMetrics {
 public:
  using Seconds = std::chrono::duration<double>;

  void first_token(Seconds since_start);
  void next_token(Seconds since_last);
  // One answer: all its tokens, from its first to its last.
  void answer(FinishReason reason, int64_t tokens, Seconds writing);
  void request(Seconds since_start, int64_t prompt_tokens, int64_t answer_tokens);
  void response(int status);
  void dropped_reader();

  [[nodiscard]] std::string text(const GeneratorStats& stats, const std::string& model,
                                 int open_requests, bool ready) const;

 private:
  // Counts of values up to each of some bounds, their sum and their number.
  struct Histogram {
    std::array<uint64_t, 24> counts{};
    uint64_t count = 0;
    double sum = 0;
  };
  static void observe(Histogram& histogram, std::span<const double> bounds, double value);

  mutable std::mutex mutex_;
  Histogram first_token_, next_token_, per_token_, request_, prompt_tokens_, answer_tokens_;
  std::array<uint64_t, 5> finished_{};  // by reason
  std::map<int, uint64_t> responses_;
  uint64_t dropped_readers_ = 0;
};

}  // namespace tessera::serve

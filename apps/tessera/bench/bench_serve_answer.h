// What one streamed answer says, event by event, with the times at which they came. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench_serve_events.h"

namespace tessera {

// What one request met. Times are seconds after the start of the load.
struct AnswerSample {
  double asked_s = 0;  // when it was due, or sent in a closed loop
  double sent_s = 0;   // when it was sent
  double first_s = 0;  // first token
  double last_s = 0;   // last token
  double ended_s = 0;  // whole answer
  int64_t texts = 0;   // events with text, or with tokens
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;  // as the server counts them, else as they came
  int64_t cached_tokens = 0;  // of the prompt
  std::vector<float> gaps_s;  // between events with tokens
  std::string failure;        // what kind; empty: none
  std::string detail;         // what the server said of it, cut

  [[nodiscard]] bool ok() const { return failure.empty(); }
  [[nodiscard]] double ttft_s() const { return first_s - asked_s; }
  [[nodiscard]] double whole_s() const { return ended_s - asked_s; }
  // Seconds of a token after the first; 0 where there is but one.
  [[nodiscard]] double tpot_s() const;
};

// Fills a sample from the body of a response.
class AnswerReader {
 public:
  explicit AnswerReader(AnswerSample& sample) : sample_(sample) {}

  // Part of a body, which came at `now_s`. False: it cannot be read, and sample.failure says why.
  bool feed(std::string_view bytes, double now_s);
  // The body is over. Sets sample.failure where something of the answer is missing.
  void end(double now_s);

 private:
  void take(std::string_view data, double now_s);

  AnswerSample& sample_;
  SseParser parser_;
  int64_t counted_ = 0;    // tokens
  bool finished_ = false;  // a choice has said why it ended
  bool done_ = false;      // [DONE]
};

// What is kept of a refusal's body: its message, or its beginning.
std::string refusal_text(std::string_view body);

}  // namespace tessera

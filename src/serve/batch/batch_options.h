// What the scheduler is asked and how it decides.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/frame.h"
#include "serve/generator.h"

namespace tessera::serve {

enum class Admission : uint8_t {
  kGuarantee,  // a request's longest answer has room before it begins: nothing is ever preempted
  kExpected,   // answers are taken to be as long as nine in ten of the last ones were
};

struct BatchOptions {
  int64_t token_budget = 2048;  // of a frame; never more than ServeShape::max_tokens
  Admission admission = Admission::kExpected;
  bool prefix_cache = true;
  int64_t least_chunk = 256;      // with several stages, prompts are cut into one chunk for each
  int64_t expected_answer = 256;  // tokens, until enough answers have ended

  // How many choices one frame can hold, at most.
  [[nodiscard]] int64_t slots(const ServeShape& shape) const;
  // Throws ConfigError where ranks of this shape could not work so.
  void check(const ServeShape& shape) const;
};

struct BatchRequest {
  GenerationId id = 0;
  std::vector<int32_t> prompt = {};
  int64_t max_tokens = 0;  // of each answer; 0: the prompt is computed, and one row sampled
  int choices = 1;
  int priority = 0;
  bool prompt_rows = false;  // also a row for each token of the prompt but the last
  std::string salt = {};
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
};

// Empty: these could run alone. Else which number is too large for which, and what to do.
std::string why_too_long(int64_t prompt_tokens, int64_t max_tokens, int choices,
                         const ServeShape& shape, const BatchOptions& options);

}  // namespace tessera::serve

// For tests: whether what was read of a request keeps within all limits.
#pragma once

#include <string>

#include "serve/api/asked.h"

namespace tessera::serve {

// The first one that does not hold; empty: all do.
inline std::string broken_limit(const Asked& asked, const ServedModel& model) {
  const auto is_token = [&](int32_t id) { return id >= 0 && id < model.vocab; };
  if (asked.prompts.empty()) return "no prompt";
  if (asked.choices < 1) return "no choice";
  if (asked.num_answers() > kMostAnswers) return "too many answers";
  if (asked.max_tokens < 0 || asked.min_tokens > asked.max_tokens) return "max_tokens";
  if (asked.stops.size() > kMostStops) return "too many stops";
  for (size_t i = 0; i < asked.prompts.size(); ++i) {
    if (asked.prompts[i].empty()) return "an empty prompt";
    const GenerationRequest request = request_of(asked, i);
    if (request.max_tokens < 1) return "a request for no token";
    if (std::ssize(request.prompt) + asked.max_tokens > model.max_context) return "the context";
    for (const int32_t id : request.prompt) {
      if (!is_token(id)) return "a token of a prompt";
    }
    for (const int32_t id : request.end_tokens) {
      if (!is_token(id)) return "an end token";
    }
    const Sampling& how = request.sampling;
    if (!(how.temperature >= 0 && how.temperature <= 2)) return "temperature";
    if (!(how.top_p > 0 && how.top_p <= 1)) return "top_p";
    if (how.logprobs > kMostTopLogprobs) return "logprobs";
  }
  return "";
}

}  // namespace tessera::serve

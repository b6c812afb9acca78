// Answers as JSON, in the shapes of OpenAI's API: whole responses, and the chunks of a stream.
// Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "serve/api/asked.h"
#include "serve/api/choice_text.h"
#include "serve/generator.h"

namespace tessera::serve {

// What stands in every response and chunk of one request.
struct AnswerHead {
  std::string id;
  std::string model;
  int64_t created = 0;
};

nlohmann::ordered_json usage_json(const GenerationUsage& usage);

// One choice of a response that is not streamed.
nlohmann::ordered_json choice_json(const Asked& asked, const Words& words, int64_t index,
                                   const TextPart& part, FinishReason reason);
std::string response_json(const Asked& asked, const AnswerHead& head,
                          nlohmann::ordered_json choices, const GenerationUsage& usage);

// One chunk, as an event. `first`: of a chat, it says who speaks. `reason`: the answer ends with
// it.
std::string chunk_event(const Asked& asked, const AnswerHead& head, const Words& words,
                        int64_t index, const TextPart& part, bool first,
                        std::optional<FinishReason> reason);
// The one after all others, without a choice.
std::string usage_event(const Asked& asked, const AnswerHead& head, const GenerationUsage& usage);

std::string dump(const nlohmann::ordered_json& json);

}  // namespace tessera::serve

// What one request to /v1/completions or /v1/chat/completions asks for, checked.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/words.h"
#include "serve/generator.h"

namespace tessera::serve {

// Limits on what one request may ask for.
inline constexpr int kMostChoices = 16;      // of one prompt
inline constexpr size_t kMostPrompts = 64;   // of one request
inline constexpr size_t kMostAnswers = 128;  // prompts times choices
inline constexpr size_t kMostStops = 4, kMostStopBytes = 64;
inline constexpr size_t kMostBiases = 300;
inline constexpr int kMostTopLogprobs = 20;
inline constexpr size_t kMostSaltBytes = 256;
inline constexpr int kFirstPriority = -1000, kLastPriority = 1000;

// Compiles a JSON schema for the answers. Throws ConfigError for one that it cannot.
using MakeGrammar =
    std::function<std::unique_ptr<TokenGrammar>(const nlohmann::ordered_json& schema)>;

// The model, as requests are checked against it.
struct ServedModel {
  std::string id;       // that requests name
  int64_t created = 0;  // seconds since 1970
  std::shared_ptr<const Words> words;
  int64_t vocab = 0;
  int64_t max_context = 0;
  MakeGrammar make_grammar;              // empty: response_format is refused
  std::chrono::milliseconds longest{0};  // a request may take; 0: as long as it takes
};

enum class Shape : uint8_t { kCompletion, kChat };

struct Asked {
  Shape shape = Shape::kCompletion;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> prompt_texts;  // of each, where it is echoed
  // Prompt, grammar and deadline are each prompt's own.
  int64_t max_tokens = 16;
  int64_t min_tokens = 0;
  int choices = 1;
  Sampling sampling;
  std::vector<int32_t> end_tokens;
  std::unique_ptr<TokenGrammar> grammar;
  int priority = 0;
  std::string salt;
  std::optional<std::chrono::milliseconds> timeout;

  std::vector<std::string> stops;
  bool stream = false;
  bool include_usage = false;
  bool echo = false;
  bool logprobs = false;
  bool token_ids = false;  // in the choices

  [[nodiscard]] size_t num_answers() const { return prompts.size() * static_cast<size_t>(choices); }
};

// `body`: the text that came. Throws ApiError. Pure, but for the seed of a request without one.
Asked read_completion(std::string_view body, const ServedModel& model);
Asked read_chat(std::string_view body, const ServedModel& model);
// Either, as "messages" says: a line of a file of prompts. `id`, where it is not null, takes the
// field of this name as it is, or null.
Asked read_either(std::string_view body, const ServedModel& model, nlohmann::ordered_json* id);

// What the generator is told for one of the prompts. The grammar is cloned.
GenerationRequest request_of(const Asked& asked, size_t prompt);

}  // namespace tessera::serve

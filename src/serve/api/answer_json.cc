#include "serve/api/answer_json.h"

#include <algorithm>
#include <cmath>

#include "http/event_source.h"
#include "serve/api/metrics.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity; this is what others write for a token that cannot be.
constexpr double kImpossible = -9999.0;

double finite(double logprob) { return std::isfinite(logprob) ? logprob : kImpossible; }

Json bytes_json(const std::string& bytes) {
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<uint8_t>(byte));
  return list;
}

Json chat_token(const Words& words, int32_t token, double logprob) {
  return {{"token", words.text_of(token)},
          {"logprob", finite(logprob)},
          {"bytes", bytes_json(words.bytes_of(token))}};
}

Json chat_logprobs(const Words& words, const TextPart& part) {
  Json content = Json::array();
  for (const SampledToken& token : part.tokens) {
    Json entry = chat_token(words, token.token, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (const TokenLogprob& one : token.top) {
      entry["top_logprobs"].push_back(chat_token(words, one.token, one.logprob));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(const Words& words, const TextPart& part) {
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array();
  for (const SampledToken& token : part.tokens) {
    tokens.push_back(words.text_of(token.token));
    // Nothing was said of the first token of a prompt.
    const bool said = !std::isnan(token.logprob);
    logprobs.push_back(said ? Json(finite(token.logprob)) : Json());
    Json top = Json::object();
    for (const TokenLogprob& one : token.top) {
      top.emplace(words.text_of(one.token), finite(one.logprob));
    }
    tops.push_back(said ? std::move(top) : Json());
  }
  return {{"text_offset", part.offsets},
          {"token_logprobs", std::move(logprobs)},
          {"tokens", std::move(tokens)},
          {"top_logprobs", std::move(tops)}};
}

Json logprobs_json(const Asked& asked, const Words& words, const TextPart& part) {
  if (!asked.logprobs) return {};
  return asked.shape == Shape::kChat ? chat_logprobs(words, part)
                                     : completion_logprobs(words, part);
}

void add_ids(const Asked& asked, const TextPart& part, Json& choice) {
  if (!asked.token_ids) return;
  Json ids = Json::array();
  for (const SampledToken& token : part.tokens) ids.push_back(token.token);
  choice["token_ids"] = std::move(ids);
}

Json head_json(const AnswerHead& head, const char* object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

const char* object_of(const Asked& asked, bool chunk) {
  if (asked.shape == Shape::kCompletion) return "text_completion";
  return chunk ? "chat.completion.chunk" : "chat.completion";
}

}  // namespace

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Json usage_json(const GenerationUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.answer_tokens},
          {"total_tokens", usage.prompt_tokens + usage.answer_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json choice_json(const Asked& asked, const Words& words, int64_t index, const TextPart& part,
                 FinishReason reason) {
  Json choice = {{"index", index}};
  if (asked.shape == Shape::kChat) {
    choice["message"] = {{"role", "assistant"}, {"content", part.text}, {"refusal", nullptr}};
  } else {
    choice["text"] = part.text;
  }
  choice["logprobs"] = logprobs_json(asked, words, part);
  choice["finish_reason"] = name_of(reason);
  add_ids(asked, part, choice);
  return choice;
}

std::string response_json(const Asked& asked, const AnswerHead& head, Json choices,
                          const GenerationUsage& usage) {
  Json json = head_json(head, object_of(asked, false));
  json["choices"] = std::move(choices);
  json["usage"] = usage_json(usage);
  return dump(json) + "\n";
}

std::string chunk_event(const Asked& asked, const AnswerHead& head, const Words& words,
                        int64_t index, const TextPart& part, bool first,
                        std::optional<FinishReason> reason) {
  Json choice = {{"index", index}};
  if (asked.shape == Shape::kChat) {
    Json delta = Json::object();
    if (first) delta = {{"role", "assistant"}, {"content", part.text}};
    if (!first && !part.text.empty()) delta["content"] = part.text;
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = part.text;
  }
  choice["logprobs"] = part.tokens.empty() ? Json() : logprobs_json(asked, words, part);
  choice["finish_reason"] = reason.has_value() ? Json(name_of(*reason)) : Json();
  add_ids(asked, part, choice);
  Json json = head_json(head, object_of(asked, true));
  json["choices"] = Json::array({std::move(choice)});
  if (asked.include_usage) json["usage"] = nullptr;
  return http::format_event("", "", dump(json));
}

std::string usage_event(const Asked& asked, const AnswerHead& head, const GenerationUsage& usage) {
  Json json = head_json(head, object_of(asked, true));
  json["choices"] = Json::array();
  json["usage"] = usage_json(usage);
  return http::format_event("", "", dump(json));
}

}  // namespace tessera::serve

#include "serve/api/asked.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/text/json.h"
#include "serve/api/api_error.h"
#include "serve/api/body_fields.h"
#include "serve/api/chat_messages.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBodyBytes = size_t{2} << 20;
constexpr double kLongestTimeoutS = 86'400;
// What OpenAI's clients send and what has no effect on the answer.
constexpr auto kIgnored = {"user",
                           "store",
                           "metadata",
                           "service_tier",
                           "safety_identifier",
                           "prompt_cache_key",
                           "prompt_cache_retention",
                           "reasoning_effort",
                           "verbosity",
                           "parallel_tool_calls"};

uint64_t random_seed() {
  static thread_local std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

std::vector<int32_t> read_ids(const Json& list, const std::string& name, int64_t vocab) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    const bool valid = id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(vocab);
    if (!valid) {
      refuse_field(name, "{} has {} among its token ids: the model has ids from 0 to {}", name,
                   shown_value(id), vocab - 1);
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

void read_stops(BodyFields& fields, const ServedModel& model, Asked& asked) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return;
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  if (list.size() > kMostStops) {
    refuse_field("stop", "stop has {} texts: {} are the most", list.size(), kMostStops);
  }
  for (const Json& one : list) {
    const bool valid = one.is_string() && !one.get_ref<const std::string&>().empty() &&
                       one.get_ref<const std::string&>().size() <= kMostStopBytes;
    if (!valid) {
      refuse_field("stop", "stop has {}: texts of 1 to {} bytes are wanted", shown_value(one),
                   kMostStopBytes);
    }
    const auto& text = one.get_ref<const std::string&>();
    // A special token has no text in an answer, so it is stopped at by its id.
    const int32_t special = model.words->special_token(text);
    if (special >= 0) asked.end_tokens.push_back(special);
    asked.stops.push_back(text);
  }
  if (!model.words->has_text() && !asked.stops.empty()) {
    refuse_field("stop", "this model has no tokenizer, so no text can stop it: use stop_token_ids");
  }
}

void read_biases(BodyFields& fields, const ServedModel& model, Sampling& sampling) {
  const Json* biases = fields.find("logit_bias");
  if (biases == nullptr) return;
  if (!biases->is_object() || biases->size() > kMostBiases) {
    refuse_field("logit_bias",
                 "logit_bias is {} of {}: an object of at most {} token ids is wanted",
                 shown_value(*biases), biases->size(), kMostBiases);
  }
  for (const auto& [name, value] : biases->items()) {
    int32_t token = -1;
    const char* const end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data(), end, token);
    const bool is_token = error == std::errc() && at == end && token >= 0 && token < model.vocab;
    const double bias =
        value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!is_token || !(bias >= -100 && bias <= 100)) {
      refuse_field("logit_bias",
                   "logit_bias has '{}': {}: a token id from 0 to {} and a number from -100 to 100 "
                   "are wanted",
                   shown_value(name), shown_value(value), model.vocab - 1);
    }
    sampling.logit_bias.emplace_back(token, bias);
  }
}

void read_sampling(BodyFields& fields, const ServedModel& model, Sampling& sampling) {
  constexpr double kSmallest = 1e-9;  // top_p 0 means the likeliest token
  sampling.temperature = fields.real("temperature", 1, 0, 2);
  sampling.top_p = std::max(kSmallest, fields.real("top_p", 1, 0, 1));
  // -1 is "all" to some clients.
  sampling.top_k = std::max<int64_t>(0, fields.whole("top_k", 0, -1, INT32_MAX));
  if (sampling.top_k >= model.vocab) sampling.top_k = 0;
  sampling.min_p = fields.real("min_p", 0, 0, 1);
  sampling.presence_penalty = fields.real("presence_penalty", 0, -2, 2);
  sampling.frequency_penalty = fields.real("frequency_penalty", 0, -2, 2);
  sampling.repetition_penalty = fields.real("repetition_penalty", 1, 0.01, 100);
  const auto seed = fields.whole("seed", INT64_MIN, INT64_MAX);
  sampling.seed = seed.has_value() ? static_cast<uint64_t>(*seed) : random_seed();
  read_biases(fields, model, sampling);
}

void read_stream(BodyFields& fields, Asked& asked) {
  asked.stream = fields.flag("stream", false);
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!asked.stream) {
    refuse_field("stream_options", "stream_options is given, but stream is not true");
  }
  BodyFields inside(*options, "stream_options");
  asked.include_usage = inside.flag("include_usage", false);
  inside.ignore({"include_obfuscation", "continuous_usage_stats"});
  inside.finish();
}

void read_format(BodyFields& fields, const ServedModel& model, Asked& asked) {
  const Json* format = fields.find("response_format");
  if (format == nullptr) return;
  BodyFields inside(*format, "response_format");
  const std::string type = inside.text("type", 100).value_or("");
  if (type == "text") return inside.finish();
  Json schema = {{"type", "object"}};
  if (type == "json_schema") {
    const Json* given = inside.find("json_schema");
    if (given == nullptr) {
      refuse_field("response_format.json_schema", "response_format has no json_schema");
    }
    BodyFields described(*given, "response_format.json_schema");
    const Json* found = described.find("schema");
    described.ignore({"name", "description", "strict"});
    described.finish();
    if (found == nullptr) {
      refuse_field("response_format.json_schema.schema",
                   "response_format.json_schema has no schema");
    }
    schema = *found;
  } else if (type != "json_object") {
    refuse_field("response_format.type",
                 "response_format.type is '{}': text, json_object or json_schema is wanted",
                 shown_value(type));
  }
  inside.finish();
  if (!model.make_grammar) {
    throw ApiError(400, "unsupported_value", "response_format",
                   fmt::format("response_format '{}': this server was started without grammars, so "
                               "it cannot hold an answer to a shape",
                               type));
  }
  try {
    asked.grammar = model.make_grammar(schema);
  } catch (const ConfigError& error) {
    refuse_field("response_format", "response_format: {}", error.what());
  }
}

// What both routes have.
void read_common(BodyFields& fields, const ServedModel& model, Asked& asked) {
  asked.choices = static_cast<int>(fields.whole("n", 1, 1, kMostChoices));
  read_sampling(fields, model, asked.sampling);
  if (!fields.flag("ignore_eos", false)) asked.end_tokens = model.words->end_tokens();
  if (const Json* ids = fields.find("stop_token_ids")) {
    if (!ids->is_array() || ids->size() > kMostBiases) {
      refuse_field("stop_token_ids", "stop_token_ids is {}: a list of at most {} ids is wanted",
                   shown_value(*ids), kMostBiases);
    }
    const auto more = read_ids(*ids, "stop_token_ids", model.vocab);
    asked.end_tokens.insert(asked.end_tokens.end(), more.begin(), more.end());
  }
  read_stops(fields, model, asked);
  asked.min_tokens = fields.whole("min_tokens", 0, 0, model.max_context);
  read_stream(fields, asked);
  read_format(fields, model, asked);
  asked.token_ids = fields.flag("return_token_ids", false) || !model.words->has_text();
  asked.priority = static_cast<int>(fields.whole("priority", 0, kFirstPriority, kLastPriority));
  asked.salt = fields.text("cache_salt", kMostSaltBytes).value_or("");
  if (fields.has("timeout")) {
    asked.timeout = std::chrono::milliseconds(
        static_cast<int64_t>(fields.real("timeout", 0, 0.001, kLongestTimeoutS) * 1000));
  }
  if (model.longest.count() > 0) {
    asked.timeout = std::min(asked.timeout.value_or(model.longest), model.longest);
  }
  for (const char* name : kIgnored) fields.ignore({name});
}

void check_model(BodyFields& fields, const ServedModel& model) {
  const auto name = fields.text("model", 4096);
  if (!name.has_value() || *name == model.id) return;
  throw ApiError(
      404, "model_not_found", "model",
      fmt::format("there is no model {}: this server has '{}'", shown_value(*name), model.id));
}

[[noreturn]] void refuse_length(const ServedModel& model, int64_t prompt, int64_t answer,
                                const char* param) {
  throw ApiError(400, "context_length_exceeded", param,
                 fmt::format("the model's context is {} tokens, but the prompt has {} and the "
                             "answer may have {}: {} together",
                             model.max_context, prompt, answer, prompt + answer));
}

// `asked_for`: nothing, where the request does not say.
void settle_length(Asked& asked, const ServedModel& model, std::optional<int64_t> asked_for,
                   const char* param) {
  int64_t longest = 0;
  for (const auto& prompt : asked.prompts) {
    if (prompt.empty()) {
      refuse_field(param, "{} has no tokens: give at least one", param);
    }
    longest = std::max(longest, std::ssize(prompt));
  }
  const int64_t least = asked.echo ? 0 : 1;
  if (longest + least > model.max_context) {
    refuse_length(model, longest, asked_for.value_or(least), param);
  }
  if (asked_for.has_value()) {
    if (longest + *asked_for > model.max_context) refuse_length(model, longest, *asked_for, param);
    asked.max_tokens = *asked_for;
  } else {
    const int64_t rest = model.max_context - longest;
    asked.max_tokens = asked.shape == Shape::kChat ? rest : std::min<int64_t>(16, rest);
  }
  if (asked.min_tokens > asked.max_tokens) {
    refuse_field("min_tokens", "min_tokens is {}, but the answer has {} at most", asked.min_tokens,
                 asked.max_tokens);
  }
  if (asked.num_answers() > kMostAnswers) {
    refuse_field("n", "{} prompts with {} answers each are {}: {} are the most",
                 asked.prompts.size(), asked.choices, asked.num_answers(), kMostAnswers);
  }
}

void add_text_prompt(const std::string& text, const ServedModel& model, Asked& asked) {
  asked.prompts.push_back(model.words->encode(text, /*whole=*/true));
  asked.prompt_texts.push_back(text);
}

void add_id_prompt(const Json& list, const ServedModel& model, Asked& asked) {
  asked.prompts.push_back(read_ids(list, "prompt", model.vocab));
  std::string text;
  if (asked.echo && model.words->has_text()) {
    const auto decoder = model.words->decoder();
    for (const int32_t id : asked.prompts.back()) text += decoder->push(id);
    text += decoder->finish();
  }
  asked.prompt_texts.push_back(std::move(text));
}

void read_prompts(const Json* prompt, const ServedModel& model, Asked& asked) {
  if (prompt == nullptr) refuse_field("prompt", "there is no prompt");
  if (prompt->is_string()) return add_text_prompt(prompt->get<std::string>(), model, asked);
  if (!prompt->is_array() || prompt->empty()) {
    refuse_field("prompt", "prompt is {}: text, a list of token ids, or a list of either is wanted",
                 shown_value(*prompt));
  }
  if (prompt->front().is_number()) return add_id_prompt(*prompt, model, asked);
  if (prompt->size() > kMostPrompts) {
    refuse_field("prompt", "prompt has {} of them: {} are the most", prompt->size(), kMostPrompts);
  }
  for (const Json& one : *prompt) {
    if (one.is_string()) {
      add_text_prompt(one.get<std::string>(), model, asked);
    } else if (one.is_array()) {
      add_id_prompt(one, model, asked);
    } else {
      refuse_field("prompt", "prompt has {}: text or a list of token ids is wanted",
                   shown_value(one));
    }
  }
}

Asked read_completion(BodyFields& fields, const ServedModel& model) {
  Asked asked;
  check_model(fields, model);
  asked.echo = fields.flag("echo", false);
  read_common(fields, model, asked);
  if (const auto top = fields.whole("logprobs", 0, kMostTopLogprobs)) {
    asked.logprobs = true;
    asked.sampling.logprobs = static_cast<int>(*top);
  }
  const auto longest = fields.whole("max_tokens", asked.echo ? 0 : 1, INT32_MAX);
  fields.only("suffix", {""}, "this server writes after a prompt, not between two texts");
  fields.only("best_of", {Json(asked.choices)}, "this server gives all the answers that it makes");
  const Json* prompt = fields.find("prompt");
  fields.finish();
  read_prompts(prompt, model, asked);
  settle_length(asked, model, longest, "prompt");
  return asked;
}

Asked read_chat(BodyFields& fields, const ServedModel& model) {
  Asked asked;
  asked.shape = Shape::kChat;
  check_model(fields, model);
  read_common(fields, model, asked);
  asked.logprobs = fields.flag("logprobs", false);
  const auto top = fields.whole("top_logprobs", 0, kMostTopLogprobs);
  if (top.has_value() && !asked.logprobs) {
    refuse_field("top_logprobs", "top_logprobs is {}, but logprobs is not true", *top);
  }
  if (asked.logprobs) asked.sampling.logprobs = static_cast<int>(top.value_or(0));
  const auto longest = fields.whole("max_completion_tokens", 1, INT32_MAX);
  const auto also = fields.whole("max_tokens", 1, INT32_MAX);
  if (longest.has_value() && also.has_value() && *longest != *also) {
    refuse_field("max_tokens", "max_tokens is {}, but max_completion_tokens is {}", *also,
                 *longest);
  }
  const std::string prompt = read_conversation(fields, *model.words);
  fields.finish();
  asked.prompts.push_back(model.words->encode(prompt, /*whole=*/false));
  asked.prompt_texts.emplace_back();
  settle_length(asked, model, longest.has_value() ? longest : also, "messages");
  return asked;
}

Json parse_body(std::string_view body) {
  if (body.size() > kMostBodyBytes) {
    throw ApiError(
        413, "too_large", "",
        fmt::format("the body has {} bytes: {} are the most", body.size(), kMostBodyBytes));
  }
  try {
    return parse_ordered_json(body, "body");
  } catch (const ConfigError& error) {
    throw ApiError(400, "invalid_json", "", error.what());
  }
}

// Words say what they cannot encode as ConfigError.
template <typename Read>
Asked read_with(const Read& read, const char* param) {
  try {
    return read();
  } catch (const ConfigError& error) {
    throw ApiError(400, "invalid_value", param, error.what());
  }
}

}  // namespace

Asked read_completion(std::string_view body, const ServedModel& model) {
  const Json json = parse_body(body);
  BodyFields fields(json);
  return read_with([&] { return read_completion(fields, model); }, "prompt");
}

Asked read_chat(std::string_view body, const ServedModel& model) {
  const Json json = parse_body(body);
  BodyFields fields(json);
  return read_with([&] { return read_chat(fields, model); }, "messages");
}

Asked read_either(std::string_view body, const ServedModel& model, nlohmann::ordered_json* id) {
  const Json json = parse_body(body);
  BodyFields fields(json);
  if (const Json* found = fields.find("id"); id != nullptr) {
    *id = found == nullptr ? Json() : *found;
  }
  if (!fields.has("messages")) {
    return read_with([&] { return read_completion(fields, model); }, "prompt");
  }
  return read_with([&] { return read_chat(fields, model); }, "messages");
}

GenerationRequest request_of(const Asked& asked, size_t prompt) {
  GenerationRequest request;
  request.prompt = asked.prompts[prompt];
  // A prompt is only looked at together with a token behind it.
  request.max_tokens = std::max<int64_t>(1, asked.max_tokens);
  request.min_tokens = asked.min_tokens;
  request.choices = asked.choices;
  request.sampling = asked.sampling;
  request.end_tokens = asked.end_tokens;
  if (asked.grammar != nullptr) request.grammar = asked.grammar->clone();
  request.prompt_logprobs = asked.echo && asked.logprobs;
  request.priority = asked.priority;
  request.salt = asked.salt;
  if (asked.timeout.has_value()) {
    request.deadline = std::chrono::steady_clock::now() + *asked.timeout;
  }
  return request;
}

}  // namespace tessera::serve

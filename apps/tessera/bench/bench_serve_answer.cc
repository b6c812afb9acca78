#include "bench/bench_serve_answer.h"

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostDetail = 200;

// The member, where it is there and of this kind.
const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

int64_t count_at(const Json* object, const char* key) {
  const Json* value = object == nullptr ? nullptr : member(*object, key);
  return value != nullptr && value->is_number_integer() ? value->get<int64_t>() : 0;
}

// Tokens that the choice says it has; an event with text has one at least.
int64_t tokens_of(const Json& choice) {
  const Json* ids = member(choice, "token_ids");
  if (ids != nullptr && ids->is_array() && !ids->empty()) return std::ssize(*ids);
  const Json* delta = member(choice, "delta");
  const Json* text = delta != nullptr ? member(*delta, "content") : member(choice, "text");
  const bool some = text != nullptr && text->is_string() && *text != "";
  return some ? 1 : 0;
}

std::string message_of(const Json& error) {
  const Json* message = member(error, "message");
  return message != nullptr && message->is_string() ? message->get<std::string>() : error.dump();
}

std::string cut(std::string text) {
  if (text.size() > kMostDetail) text.resize(kMostDetail);
  return text;
}

}  // namespace

double AnswerSample::tpot_s() const {
  if (answer_tokens < 2 || texts < 2) return 0;
  return (last_s - first_s) / static_cast<double>(answer_tokens - 1);
}

bool AnswerReader::feed(std::string_view bytes, double now_s) {
  const bool fits = parser_.feed(bytes, [&](std::string_view data) { take(data, now_s); });
  if (!fits && sample_.ok()) sample_.failure = "event too large";
  return sample_.ok();
}

void AnswerReader::take(std::string_view data, double now_s) {
  if (!sample_.ok() || done_) return;
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  Json event;
  try {
    event = parse_json(data, "event");
  } catch (const ConfigError& error) {
    sample_.failure = "no JSON in an event";
    sample_.detail = cut(error.what());
    return;
  }
  if (const Json* error = member(event, "error")) {
    sample_.failure = "error in the stream";
    sample_.detail = cut(message_of(*error));
    return;
  }
  if (const Json* usage = member(event, "usage")) {
    sample_.prompt_tokens = count_at(usage, "prompt_tokens");
    sample_.answer_tokens = count_at(usage, "completion_tokens");
    sample_.cached_tokens = count_at(member(*usage, "prompt_tokens_details"), "cached_tokens");
  }
  const Json* choices = member(event, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return;
  const Json& choice = choices->front();
  finished_ = finished_ || member(choice, "finish_reason") != nullptr;
  const int64_t tokens = tokens_of(choice);
  if (tokens == 0) return;
  counted_ += tokens;
  if (++sample_.texts == 1) {
    sample_.first_s = now_s;
  } else {
    sample_.gaps_s.push_back(static_cast<float>(now_s - sample_.last_s));
  }
  sample_.last_s = now_s;
}

void AnswerReader::end(double now_s) {
  sample_.ended_s = now_s;
  if (!sample_.ok()) return;
  if (parser_.is_inside_event() || !(done_ || finished_)) {
    sample_.failure = "stream broke off";
    return;
  }
  if (sample_.answer_tokens == 0) sample_.answer_tokens = counted_;
  // Tokens that are no text, such as the start of a character, were told with the end.
  if (sample_.texts == 0) sample_.first_s = sample_.last_s = now_s;
}

std::string refusal_text(std::string_view body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  const Json* error = json.is_discarded() ? nullptr : member(json, "error");
  return cut(error != nullptr ? message_of(*error) : std::string(trim(body)));
}

}  // namespace tessera

#include "serve/api/chat_messages.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "serve/api/api_error.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kRoles = {"system", "developer", "user", "assistant"};

// Text, or a list of parts that are text.
Json content_of(const Json& content, const std::string& place) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) {
    refuse_field(place, "{} is {}: text or a list of parts is wanted", place, shown_value(content));
  }
  std::string text;
  for (const Json& part : content) {
    BodyFields fields(part, place);
    const std::string type = fields.text("type", 100).value_or("");
    if (type != "text" && type != "refusal") {
      throw ApiError(400, "unsupported_value", place,
                     fmt::format("{} has a part of type {}: this model reads text alone", place,
                                 shown_value(type)));
    }
    const auto words = fields.text(type, SIZE_MAX);
    if (!words.has_value()) refuse_field(place, "{} has a part without its {}", place, type);
    text += *words;
  }
  return text;
}

Json message_of(const Json& given, size_t index) {
  const std::string place = fmt::format("messages[{}]", index);
  BodyFields fields(given, place);
  const std::string role = fields.text("role", 100).value_or("");
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    refuse_field(place + ".role", "{}.role is {}: system, developer, user or assistant is wanted",
                 place, shown_value(role));
  }
  const Json* content = fields.find("content");
  if (content == nullptr) {
    refuse_field(place + ".content", "{} has no content", place);
  }
  // Templates know the older word for it.
  Json message = {{"role", role == "developer" ? "system" : role},
                  {"content", content_of(*content, place + ".content")}};
  if (const auto name = fields.text("name", 256)) message["name"] = *name;
  // What clients hand back of an answer that they got.
  fields.ignore({"refusal", "annotations", "reasoning_content", "reasoning"});
  const std::initializer_list<Json> nothing = {Json::array()};
  for (const char* field : {"tool_calls", "function_call", "audio"}) {
    fields.only(field, nothing, "this server makes and reads text alone");
  }
  fields.finish();
  return message;
}

}  // namespace

std::string read_conversation(BodyFields& fields, const Words& words) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    refuse_field("messages", "messages is {}: a list of at least one message is wanted",
                 messages == nullptr ? "not given" : shown_value(*messages));
  }
  if (messages->size() > kMostMessages) {
    refuse_field("messages", "messages has {}: {} are the most", messages->size(), kMostMessages);
  }
  constexpr std::string_view kNoTools =
      "this server does not read calls of tools out of an answer: describe them in a message, and "
      "ask for response_format json_schema";
  fields.only("tools", {Json::array()}, kNoTools);
  fields.only("functions", {Json::array()}, kNoTools);
  fields.only("tool_choice", {"none", "auto"}, kNoTools);
  fields.only("function_call", {"none", "auto"}, kNoTools);
  fields.only("modalities", {Json::array({"text"})}, "this model writes text alone");
  fields.only("audio", {}, "this model writes text alone");
  fields.only("web_search_options", {}, "this server searches nothing");
  fields.ignore({"prediction"});
  Json context = {{"messages", Json::array()}, {"tools", nullptr}, {"documents", nullptr}};
  if (const Json* more = fields.find("chat_template_kwargs")) {
    if (!more->is_object()) {
      refuse_field("chat_template_kwargs", "chat_template_kwargs is {}: an object is wanted",
                   shown_value(*more));
    }
    context.update(*more);
  }
  context["messages"] = Json::array();
  for (size_t i = 0; i < messages->size(); ++i) {
    context["messages"].push_back(message_of((*messages)[i], i));
  }
  context["add_generation_prompt"] = fields.flag("add_generation_prompt", true);
  return words.render_chat(std::move(context));
}

}  // namespace tessera::serve

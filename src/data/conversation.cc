#include "data/conversation.h"

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/text.h"

namespace tessera {
namespace {

void check_messages(const nlohmann::ordered_json& messages, const std::string& place) {
  require_config(messages.is_array() && !messages.empty(),
                 "{}: \"messages\" is no list with messages in it", place);
  for (size_t i = 0; i < messages.size(); ++i) {
    const nlohmann::ordered_json& message = messages[i];
    require_config(message.is_object() && message.contains("role") && message["role"].is_string(),
                   "{}: message {} is no object with a \"role\", such as {{\"role\": \"user\", "
                   "\"content\": \"...\"}}",
                   place, i + 1);
  }
}

}  // namespace

nlohmann::ordered_json parse_conversation(std::string_view line, const std::string& place) {
  const std::string_view first = trim(line).substr(0, 1);
  require_config(first == "{",
                 "{}: a conversation is one line of JSON, such as {{\"messages\": [{{\"role\": "
                 "\"user\", \"content\": \"...\"}}]}}, and this begins with '{}'",
                 place, printable(first));
  const nlohmann::ordered_json json = parse_ordered_json(line, place);
  require_config(json.contains("messages") || !json.contains("conversations"),
                 "{}: \"conversations\" is not read: name it \"messages\", with \"role\" and "
                 "\"content\" in each",
                 place);
  require_config(json.contains("messages"), "{}: the conversation has no \"messages\"", place);
  check_messages(json["messages"], place);
  nlohmann::ordered_json context = {{"messages", json["messages"]}};
  for (const char* key : {"tools", "documents"}) {
    context[key] = json.contains(key) ? json[key] : nlohmann::ordered_json();
  }
  if (const auto more = json.find("chat_template_kwargs"); more != json.end() && !more->is_null()) {
    require_config(more->is_object(), "{}: \"chat_template_kwargs\" is no object", place);
    context.update(*more);
  }
  return context;
}

}  // namespace tessera

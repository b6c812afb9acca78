// Conversations to fine-tune on: a line of JSON each.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tessera {

// What a chat template is given of one line: "messages", "tools" and "documents" (null where the
// line has none, as transformers passes them), and the entries of "chat_template_kwargs".
// `place` is "FILE:LINE" for messages. Throws ConfigError for what is no JSON object, has no
// messages, or has a message that is no object with a "role".
nlohmann::ordered_json parse_conversation(std::string_view line, const std::string& place);

}  // namespace tessera

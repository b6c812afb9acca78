// Which part of a conversation's text the assistant says: what carries loss in fine-tuning.
#pragma once

#include <ctime>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "data/template/chat_template.h"

namespace tessera {

// The text of `context` (messages, tools, ...; see ChatTemplate::render) without a prompt for
// another turn; `generated` are the assistant's parts, ascending. A template that marks them with
// {% generation %} says which they are. For others they are found by rendering beginnings of the
// conversation: message i is what the text of the first i messages has more than the text of those
// before it, with the prompt for the assistant. It includes what ends the turn. Throws ConfigError
// where one of these texts does not begin with the other, with the message and the byte: the
// template writes a turn otherwise when others follow.
RenderedChat render_for_training(const ChatTemplate& chat_template,
                                 const nlohmann::ordered_json& context,
                                 const std::optional<std::tm>& now);

}  // namespace tessera

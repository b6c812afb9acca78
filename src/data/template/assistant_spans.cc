#include "data/template/assistant_spans.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::string_view kMark =
    "put {% generation %} and {% endgeneration %} around what the assistant says in the template";

// Renders beginnings of one conversation, on one budget.
class Beginnings {
 public:
  Beginnings(const ChatTemplate& chat_template, const nlohmann::ordered_json& context,
             const std::optional<std::tm>& now)
      : template_(chat_template),
        context_(context),
        now_(now),
        messages_(context.at("messages")),
        budget_(chat_template.limits()) {}

  std::string render(size_t count, bool prompt) {
    auto first = nlohmann::ordered_json::array();
    for (size_t i = 0; i < count; ++i) first.push_back(messages_[i]);
    context_["messages"] = std::move(first);
    context_["add_generation_prompt"] = prompt;
    try {
      return template_.render(context_, now_, budget_).text;
    } catch (const ConfigError& error) {
      if (count == messages_.size()) throw;
      throw ConfigError(fmt::format(
          "{} (while rendering {} alone, to find what the assistant says: {})", error.what(),
          count == 0 ? "no message"
                     : "the first " + count_of(static_cast<int64_t>(count), "message"),
          kMark));
    }
  }
  [[nodiscard]] const nlohmann::ordered_json& messages() const { return messages_; }

 private:
  const ChatTemplate& template_;
  nlohmann::ordered_json context_;
  std::optional<std::tm> now_;
  nlohmann::ordered_json messages_;
  jinja::Budget budget_;
};

void require_beginning(const std::string& text, const std::string& beginning,
                       const ChatTemplate& chat_template, size_t message, std::string_view what) {
  if (text.starts_with(beginning)) return;
  const auto [mine, theirs] =
      std::mismatch(text.begin(), text.end(), beginning.begin(), beginning.end());
  const auto at = static_cast<size_t>(mine - text.begin());
  throw ConfigError(fmt::format(
      "{}: what the assistant says in message {} cannot be told: {}; they part at byte {}, with {} "
      "and {}: {}",
      chat_template.name(), message + 1, what, at, in_quotes(beginning.substr(at), 40),
      in_quotes(text.substr(at), 40), kMark));
}

}  // namespace

RenderedChat render_for_training(const ChatTemplate& chat_template,
                                 const nlohmann::ordered_json& context,
                                 const std::optional<std::tm>& now) {
  if (chat_template.marks_generation()) {
    nlohmann::ordered_json whole = context;
    whole["add_generation_prompt"] = false;
    return chat_template.render(whole, now);
  }
  Beginnings beginnings(chat_template, context, now);
  const nlohmann::ordered_json& messages = beginnings.messages();
  RenderedChat chat;
  chat.text = beginnings.render(messages.size(), false);
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].value("role", "") != "assistant") continue;
    const std::string before = beginnings.render(i, true);
    const std::string with = beginnings.render(i + 1, false);
    require_beginning(chat.text, with, chat_template, i,
                      "the template writes it otherwise when other messages follow");
    require_beginning(with, before, chat_template, i,
                      "the prompt for the assistant is not how its message begins");
    if (with.size() > before.size()) chat.generated.push_back({before.size(), with.size()});
  }
  return chat;
}

}  // namespace tessera

#include "text/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

Json message_of(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

bool begins_with_system(const Json& messages) {
  return !messages.empty() && messages.front().at("role") == "system";
}

}  // namespace

Conversation::Conversation(serve::StartedModel& model, const SamplingFlags& sampling,
                           const std::string& system)
    : model_(model),
      sampling_(sampling),
      desk_(model.generator(), metrics_, *model.served().words, /*workers=*/1) {
  constexpr int64_t kUsualSeed = 1;
  if (sampling_.seed < 0) sampling_.seed = kUsualSeed;
  if (!system.empty()) set_system(system);
}

AnswerEnd Conversation::say(const std::string& text, const std::function<bool()>& unwanted,
                            Console& console) {
  const Json before = messages_;
  messages_.push_back(message_of("user", text));
  try {
    std::vector<int32_t> tokens = prompt();
    const int64_t length = std::ssize(tokens);
    const int64_t room = context() - length;
    require_config(room >= 1,
                   "the conversation has {} now, and the model's context is {}: /reset begins "
                   "anew, a larger --max-context has room for more",
                   count_of(length, "token"), with_thousands(context()));
    SamplingFlags sampling = sampling_;
    sampling.seed += static_cast<int64_t>(turns_++);
    const auto asked = ask_one(sampling, model_.served(), serve::Shape::kChat, std::move(tokens),
                               sampling.tokens > 0 ? std::min(sampling.tokens, room) : room);
    std::string answer;
    int64_t answered = 0;
    const AnswerEnd end = follow_answer(
        desk_, model_, asked,
        [&](const serve::TextPart& part) {
          answer += part.text;
          answered += std::ssize(part.tokens);
          console.out << part.text << std::flush;
        },
        unwanted);
    console.out << std::endl;
    length_ = length + answered;
    messages_.push_back(message_of("assistant", answer));
    return end;
  } catch (...) {
    messages_ = before;
    throw;
  }
}

void Conversation::reset() {
  while (messages_.size() > (begins_with_system(messages_) ? 1U : 0U)) {
    messages_.erase(messages_.size() - 1);
  }
  length_ = 0;
}

void Conversation::set_system(const std::string& text) {
  if (begins_with_system(messages_)) messages_.erase(0);
  if (!text.empty()) messages_.insert(messages_.begin(), message_of("system", text));
}

std::string Conversation::system() const {
  return begins_with_system(messages_) ? messages_.front().at("content").get<std::string>() : "";
}

std::vector<int32_t> Conversation::prompt() const {
  const serve::Words& words = *model_.served().words;
  const Json context = {{"messages", messages_},
                        {"tools", nullptr},
                        {"documents", nullptr},
                        {"add_generation_prompt", true}};
  return words.encode(words.render_chat(context), /*whole=*/false);
}

}  // namespace tessera

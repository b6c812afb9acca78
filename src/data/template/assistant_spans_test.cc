#include "data/template/assistant_spans.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"
#include "data/testing/template_oracle.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

ordered_json turns() {
  return ordered_json::parse(
      R"({"bos_token": "<s>", "eos_token": "</s>", "tools": null, "messages": [
    {"role": "user", "content": "One"}, {"role": "assistant", "content": "First é"},
    {"role": "user", "content": "Two"}, {"role": "assistant", "content": "Second"}]})");
}

ChatTemplate shape(const std::string& name) {
  const std::string path =
      std::string(TESSERA_SOURCE_DIR) + "/tests/data/templates/" + name + ".jinja";
  return ChatTemplate::parse(testing::read_file(path), name);
}

std::vector<std::string> parts_of(const RenderedChat& chat) {
  std::vector<std::string> parts;
  for (const TextSpan& span : chat.generated) {
    parts.push_back(chat.text.substr(span.begin, span.end - span.begin));
  }
  return parts;
}

using Parts = std::vector<std::string>;

TEST(AssistantSpansTest, BeginningsTellWhatTheAssistantSays) {
  const auto parts = [](const std::string& name) {
    return parts_of(render_for_training(shape(name), turns(), testing::oracle_time()));
  };
  EXPECT_EQ(parts("chatml"), (Parts{"First é<|end|>\n", "Second<|end|>\n"}));
  EXPECT_EQ(parts("header_ids"), (Parts{"First é<|stop|>", "Second<|stop|>"}));
  EXPECT_EQ(parts("inst_plain"), (Parts{"First é</s>", "Second</s>"}));
  EXPECT_EQ(parts("turn_tools"), (Parts{"First é<|end|>\n", "Second<|end|>\n"}));
  EXPECT_EQ(parts("colon_roles"), (Parts{" First é</s>\n", " Second</s>\n"}));
}

TEST(AssistantSpansTest, GenerationBlocksSayItThemselves) {
  const RenderedChat chat =
      render_for_training(shape("chatml_generation"), turns(), testing::oracle_time());
  EXPECT_EQ(parts_of(chat), (Parts{"First é<|end|>", "Second<|end|>"}));
  EXPECT_TRUE(chat.text.ends_with("Second<|end|>\n")) << "no prompt for another turn";
}

TEST(AssistantSpansTest, ConversationsWithoutAnswersHaveNoParts) {
  const ordered_json question = {{"messages", {{{"role", "user"}, {"content", "x"}}}}};
  EXPECT_TRUE(render_for_training(shape("chatml"), question, std::nullopt).generated.empty());
}

// This shape forgets thoughts of former turns: the text of two turns does not begin with that of
// one.
TEST(AssistantSpansTest, RefusesTurnsThatAreWrittenOtherwiseLater) {
  ordered_json context = turns();
  const std::string message = testing::message_of(
      [&] { render_for_training(shape("turn_thinking"), context, std::nullopt); });
  EXPECT_NE(
      message.find("turn_thinking: what the assistant says in message 2 cannot be told: the "
                   "template writes it otherwise when other messages follow; they part at byte"),
      std::string::npos)
      << message;
  EXPECT_NE(message.find("put {% generation %} and {% endgeneration %} around"), std::string::npos);
}

TEST(AssistantSpansTest, RefusesPromptsThatTheAnswerDoesNotBeginWith) {
  const auto chat = ChatTemplate::parse(
      "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ 'assistant:<think>' if "
      "add_generation_prompt }}",
      "t.jinja");
  const std::string message =
      testing::message_of([&] { render_for_training(chat, turns(), std::nullopt); });
  EXPECT_NE(message.find("message 2 cannot be told: the prompt for the assistant is not how its "
                         "message begins; they part at byte 19, with \"<think>\" and \"First"),
            std::string::npos)
      << message;
}

TEST(AssistantSpansTest, SaysWhichBeginningCouldNotBeRendered) {
  const auto chat = ChatTemplate::parse("{{ messages[0].role }}", "t.jinja");
  const ordered_json context = {{"messages", {{{"role", "assistant"}, {"content", "x"}}}}};
  const std::string message =
      testing::message_of([&] { render_for_training(chat, context, std::nullopt); });
  EXPECT_NE(message.find("while rendering no message alone"), std::string::npos) << message;
}

// All beginnings of one conversation are paid from one budget.
TEST(AssistantSpansTest, ManyTurnsEndInAMessage) {
  ordered_json context = {{"messages", ordered_json::array()}};
  for (int i = 0; i < 3000; ++i) {
    context["messages"].push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", "x"}});
  }
  const std::string message =
      testing::message_of([&] { render_for_training(shape("chatml"), context, std::nullopt); });
  EXPECT_NE(message.find("steps"), std::string::npos) << message;
}

}  // namespace
}  // namespace tessera

#include "data/chat_folder.h"

#include <gtest/gtest.h>

#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"
#include "data/conversation.h"

namespace tessera {
namespace {

using testing::message_of;
using testing::TestFolder;

TEST(ChatFolderTest, ReadsTheTemplateOfTheConfig) {
  const TestFolder folder;
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": null,
                   "chat_template": "{{ bos_token }}"})");
  folder.write("special_tokens_map.json", R"({"eos_token": "</s>", "bos_token": "<x>"})");
  const ChatFolder chat = read_chat_folder(folder.path());
  ASSERT_EQ(chat.templates.size(), 1U);
  EXPECT_EQ(chat.templates[0].source, "{{ bos_token }}");
  EXPECT_EQ(chat.special_tokens.dump(), R"({"bos_token":"<s>","eos_token":"</s>"})");
}

TEST(ChatFolderTest, ChoosesAmongNamedOnesAsTransformersDoes) {
  const TestFolder folder;
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "default", "template": "a"},
                                     {"name": "tool_use", "template": "b"}]})");
  const ChatFolder chat = read_chat_folder(folder.path());
  EXPECT_EQ(choose_template(chat, "", false).source, "a");
  EXPECT_EQ(choose_template(chat, "", true).source, "b");
  EXPECT_EQ(choose_template(chat, "default", true).source, "a");
  EXPECT_NE(
      message_of([&] { choose_template(chat, "tool_us", true); }).find("did you mean 'tool_use'?"),
      std::string::npos);
}

TEST(ChatFolderTest, FilesComeBeforeTheConfig) {
  const TestFolder folder;
  folder.write("tokenizer_config.json", R"({"chat_template": "old", "eos_token": "<e>"})");
  const std::string file = folder.write("chat_template.jinja", "new");
  std::filesystem::create_directory(folder.path("additional_chat_templates"));
  folder.write("additional_chat_templates/rag.jinja", "docs");
  const ChatFolder chat = read_chat_folder(folder.path());
  EXPECT_EQ(choose_template(chat, "", true).source, "new");
  EXPECT_EQ(choose_template(chat, "rag", false).source, "docs");
  const ChatFolder alone = read_chat_folder(file);
  EXPECT_EQ(alone.templates[0].source, "new");
  EXPECT_EQ(alone.special_tokens["eos_token"], "<e>") << "those beside the file count";
}

TEST(ChatFolderTest, SaysWhatIsMissing) {
  const TestFolder folder;
  EXPECT_NE(message_of([&] { read_chat_folder(folder.path("none")); }).find("does not exist"),
            std::string::npos);
  EXPECT_NE(message_of([&] { read_chat_folder(folder.path()); }).find("has no chat template"),
            std::string::npos);
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": 1}]})");
  EXPECT_NE(message_of([&] { read_chat_folder(folder.path()); }).find("has no \"name\""),
            std::string::npos);
  folder.write("tokenizer_config.json", "{");
  EXPECT_NE(message_of([&] { read_chat_folder(folder.path()); }).find("tokenizer_config.json:1:"),
            std::string::npos);
}

TEST(ConversationTest, GivesTheTemplateWhatTransformersGives) {
  EXPECT_EQ(
      parse_conversation(R"({"messages": [{"role": "user", "content": "x"}], "id": 7,
                                   "chat_template_kwargs": {"enable_thinking": false}})",
                         "c.jsonl:1")
          .dump(),
      R"({"messages":[{"role":"user","content":"x"}],"tools":null,"documents":null,"enable_thinking":false})");
}

TEST(ConversationTest, RefusesWithThePlace) {
  const auto refusal = [](const std::string& line) {
    return message_of([&] { parse_conversation(line, "c.jsonl:3"); });
  };
  EXPECT_NE(refusal("{\"messages\": ").find("c.jsonl:3:1:"), std::string::npos);
  for (const std::string line : {"[1]", "Once upon a time", ""}) {
    EXPECT_NE(refusal(line).find("c.jsonl:3: a conversation is one line of JSON, such as {"),
              std::string::npos)
        << refusal(line);
  }
  EXPECT_EQ(refusal("{}"), "c.jsonl:3: the conversation has no \"messages\"");
  EXPECT_NE(refusal(R"({"messages": []})").find("no list with messages"), std::string::npos);
  EXPECT_NE(
      refusal(R"({"messages": [{"role": "user"}, {"content": "x"}]})").find("message 2 is no"),
      std::string::npos);
  EXPECT_NE(refusal(R"({"conversations": []})").find("name it \"messages\""), std::string::npos);
}

}  // namespace
}  // namespace tessera

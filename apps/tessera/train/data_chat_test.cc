#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/test_folder.h"
#include "in_process.h"

namespace tessera {
namespace {

using testing::TestFolder;

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{{ '<assistant>' if add_generation_prompt }}";
constexpr const char* kChats =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", "
    "\"content\": \"h\\u001bo\"}]}\n\n{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n";

class DataChatTest : public ::testing::Test {
 protected:
  DataChatTest() {
    folder_.write("tokenizer_config.json",
                  nlohmann::json{{"bos_token", "<s>"}, {"chat_template", kTemplate}}.dump());
    chats_ = folder_.write("chats.jsonl", kChats);
  }
  TestFolder folder_;
  std::string chats_;
};

TEST_F(DataChatTest, MarksWhatCarriesLoss) {
  const Ended result = run_in_process({"data", "chat", chats_, "--template", folder_.path()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      "line 1: 2 messages, 4 of 27 bytes carry loss\n<s><user>hi\n<assistant>{+h\\u001bo\n+}\n\n"
      "line 3: 1 message, 0 of 11 bytes carry loss\n<s><user>x\n\n\n");
}

TEST_F(DataChatTest, JsonHasTheBytes) {
  const Ended result = run_in_process(
      {"data", "chat", chats_, "--template", folder_.path(), "--json", "--limit", "1"});
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["conversations"].size(), 1U);
  EXPECT_EQ(json["conversations"][0]["text"], "<s><user>hi\n<assistant>h\x1bo\n");
  EXPECT_EQ(json["conversations"][0]["loss"], nlohmann::json::parse("[[23, 27]]"));
}

TEST_F(DataChatTest, MistakesNameFileAndLine) {
  const std::string broken = folder_.write("broken.jinja", "a\n{{ messages | nosuch }}");
  const Ended wrong = run_in_process({"data", "chat", chats_, "--template", broken});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("broken.jinja:2: there is no filter 'nosuch'"), std::string::npos);
  const std::string bad = folder_.write("bad.jsonl", std::string(kChats) + "{\"messages\": 1}\n");
  const Ended line = run_in_process({"data", "chat", bad, "--template", folder_.path()});
  EXPECT_EQ(line.code, 2);
  EXPECT_NE(line.err.find("bad.jsonl:4: \"messages\" is no list"), std::string::npos) << line.err;
  const Ended date =
      run_in_process({"data", "chat", chats_, "--template", folder_.path(), "--now", "2026-02-30"});
  EXPECT_EQ(date.code, 2);
  EXPECT_NE(date.err.find("--now is '2026-02-30'"), std::string::npos);
}

}  // namespace
}  // namespace tessera

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
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

// What strangers publish: it ends with a message, and soon, before anything is trained.
TEST_F(DataChatTest, TemplatesThatLoopOrGrowAreMistakes) {
  std::string product = "0";
  for (int i = 0; i < 100; ++i) product += "*1";
  const std::map<std::string, std::pair<std::string, std::string>> templates = {
      {"loops",
       {"{% for i in range(99999) %}{{ " + product + " }}{% endfor %}",
        "steps: shorten the conversation, or look for a loop that grows"}},
      {"grows",
       {"{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}"
        "{% endfor %}{{ ns.x }}",
        "bytes of text and lists were made"}}};
  const std::string tokenizer = TESSERA_SOURCE_DIR "/tests/data/tokenizers/gpt2/tokenizer.json";
  for (const auto& [name, one] : templates) {
    SCOPED_TRACE(name);
    const TestFolder model;
    std::filesystem::copy(tokenizer, model.path("tokenizer.json"));
    model.write("chat_template.jinja", one.first);
    const Ended shown = run_in_process({"data", "chat", chats_, "--template", model.path()});
    EXPECT_EQ(shown.code, 2) << shown.out;
    EXPECT_NE(shown.err.find("chats.jsonl:1: "), std::string::npos) << shown.err;
    EXPECT_NE(shown.err.find(one.second), std::string::npos) << shown.err;
    const std::string run =
        model.write("run.toml",
                    "[model]\nlayers=1\nhidden=16\nffn=16\nheads=2\nvocab=512\n[train]\n"
                    "seq_len=16\n[data]\nchats=\"" +
                        chats_ + "\"\ntokenizer=\"" + model.path() + "\"\n");
    const Ended trained = run_in_process(
        {"train", run, "--threads", "--set", "logging.run_dir=" + model.path("run")});
    EXPECT_EQ(trained.code, 2);
    EXPECT_NE(trained.err.find("chats.jsonl:1: "), std::string::npos) << trained.err;
    EXPECT_NE(trained.err.find(one.second), std::string::npos) << trained.err;
    EXPECT_FALSE(std::filesystem::exists(model.path("run")));
  }
}

}  // namespace
}  // namespace tessera

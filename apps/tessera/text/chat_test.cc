#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "cli/printable_stream.h"
#include "in_process.h"
#include "text/chat_command.h"
#include "text/testing/scripted_model.h"

namespace tessera {
namespace {

using testing::Script;
using testing::ScriptedModel;

const std::string kTemplate = TESSERA_SOURCE_DIR "/tests/data/templates/chatml.jinja";

class GivenLines final : public LineSource {
 public:
  explicit GivenLines(std::deque<std::string> lines) : lines_(std::move(lines)) {}
  Read next(const std::string&) override {
    if (lines_.empty()) return {.is_end = true, .line = ""};
    Read read{.line = lines_.front()};
    lines_.pop_front();
    return read;
  }

 private:
  std::deque<std::string> lines_;
};

struct Talk {
  int code = 0;
  std::string out, err;
  std::vector<std::string> prompts;
};

Talk talk(std::deque<std::string> lines, const Script& script = {}, bool typed = true,
          ChatOptions options = {}) {
  std::ostringstream out, err;
  PrintableStream filtered(out);
  Console console{.out = filtered, .err = err};
  options.model.model = "scripted";
  ScriptedModel model(script, kTemplate);
  GivenLines given(std::move(lines));
  Talk result;
  result.code = converse(options, model, given, typed, console);
  result.out = out.str();
  result.err = err.str();
  result.prompts = model.scripted().taken;
  return result;
}

TEST(ChatTest, EveryTurnHasTheOnesBefore) {
  Script script;
  script.answer = [](const std::string& prompt) { return std::to_string(prompt.size()); };
  ChatOptions options;
  options.system = "Be brief.";
  const Talk result = talk({"one", "", "two"}, script, /*typed=*/false, options);
  ASSERT_EQ(result.prompts.size(), 2U) << "an empty line says nothing";
  EXPECT_EQ(result.prompts[0],
            "<|turn|>system\nBe brief.<|end|>\n<|turn|>user\none<|end|>\n<|turn|>assistant\n");
  const std::string first = std::to_string(result.prompts[0].size());
  EXPECT_EQ(result.prompts[1],
            result.prompts[0] + first + "<|end|>\n<|turn|>user\ntwo<|end|>\n<|turn|>assistant\n");
  EXPECT_EQ(result.out, first + "\n" + std::to_string(result.prompts[1].size()) + "\n");
  EXPECT_EQ(result.err, "") << "in a pipe nothing but answers";
  EXPECT_EQ(result.code, 0);
}

TEST(ChatTest, CommandsChangeTheConversation) {
  const Talk result = talk({"/system Old.", "a", "/system New.", "b", "/reset", "c", "/system",
                            "/help", "/quit", "never said"});
  ASSERT_EQ(result.prompts.size(), 3U);
  EXPECT_TRUE(result.prompts[0].starts_with("<|turn|>system\nOld.<|end|>\n<|turn|>user\na"));
  EXPECT_TRUE(result.prompts[1].starts_with("<|turn|>system\nNew.<|end|>\n<|turn|>user\na"));
  EXPECT_TRUE(result.prompts[2].starts_with("<|turn|>system\nNew.<|end|>\n<|turn|>user\nc"));
  EXPECT_NE(result.err.find("(system: New.)"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("/save FILE"), std::string::npos);
}

TEST(ChatTest, LinesCanGoOnAndBeginWithASlash) {
  const Talk result = talk({"one \\", "two", "//three", "/four"});
  ASSERT_EQ(result.prompts.size(), 2U);
  EXPECT_NE(result.prompts[0].find("user\none \ntwo<|end|>"), std::string::npos);
  EXPECT_NE(result.prompts[1].find("user\n/three<|end|>"), std::string::npos);
  EXPECT_NE(result.err.find("there is no /four: /help says what there is"), std::string::npos);
}

TEST(ChatTest, SavesWhatGenerateReads) {
  const std::string path = ::testing::TempDir() + "chat_saved.jsonl";
  std::filesystem::remove(path);
  Talk result = talk({"hi", "/save " + path, "ho", "/save " + path});
  EXPECT_EQ(result.err.find("is there already"), std::string::npos) << result.err;
  std::ifstream in(path);
  nlohmann::json json;
  in >> json;
  ASSERT_EQ(json.at("messages").size(), 4U);
  EXPECT_EQ(json.at("messages").at(3).at("content"), "yes");
  result = talk({"hi", "/save " + path});
  EXPECT_NE(result.err.find("is there already: name another file"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(ChatTest, InterruptStopsTheAnswerAndNotTheProgram) {
  std::atomic<int> answers{0};
  Script script;
  script.answer = [&](const std::string&) {
    return ++answers == 1 ? std::string(500, 'y') : std::string("done");
  };
  script.before_token = [&](int64_t token) {
    if (answers != 1) return;
    if (token == 3) ::kill(::getpid(), SIGINT);
    if (token > 3) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  const Talk result = talk({"long", "next"}, script);
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find("(stopped)"), std::string::npos) << result.err;
  EXPECT_TRUE(result.out.ends_with("y\ndone\n")) << result.out;
  EXPECT_LT(result.out.size(), 400U);
  ASSERT_EQ(result.prompts.size(), 2U);
  EXPECT_NE(result.prompts[1].find("assistant\nyyy"), std::string::npos) << "what came stays";
}

TEST(ChatTest, InAPipeAnInterruptEnds) {
  Script script;
  script.answer = [](const std::string&) { return std::string(500, 'y'); };
  script.before_token = [](int64_t token) {
    if (token == 3) ::kill(::getpid(), SIGINT);
    if (token > 3) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  EXPECT_EQ(talk({"long", "next"}, script, /*typed=*/false).code, 130);
}

TEST(ChatTest, AFullContextIsToldWithBothNumbers) {
  Script script;
  script.max_context = 90;
  script.answer = [](const std::string&) { return std::string(500, 'y'); };
  const Talk result = talk({"hello", "again", "/reset", "new"}, script);
  EXPECT_NE(result.err.find("has 90 tokens of 90; /reset"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("and the model's context is 90: /reset"), std::string::npos)
      << result.err;
  ASSERT_EQ(result.prompts.size(), 2U) << "what has no room is not sent";
  EXPECT_EQ(result.prompts[1].find("again"), std::string::npos);
  // Nobody is there to mend it.
  EXPECT_THROW(talk({"hello", "again"}, script, /*typed=*/false), ConfigError);
}

TEST(ChatTest, WhatTheModelSaysMovesNoCursor) {
  Script script;
  script.answer = [](const std::string&) { return "a\x1b[2J\r\x07z"; };
  const Talk result = talk({"x"}, script);
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(result.out.find('\r'), std::string::npos);
  EXPECT_TRUE(result.out.starts_with("a")) << result.out;
}

TEST(ChatTest, AnswersEndWhereTokensSay) {
  Script script;
  script.answer = [](const std::string&) { return "a long answer"; };
  ChatOptions options;
  options.sampling.tokens = 6;
  const Talk result = talk({"x"}, script, true, options);
  EXPECT_EQ(result.out, "a long\n");
  EXPECT_NE(result.err.find("after --tokens 6"), std::string::npos) << result.err;
}

TEST(ChatTest, AModelWithoutATemplateIsRefusedBeforeItIsLoaded) {
  const Ended ids = run_in_process({"chat", TESSERA_SOURCE_DIR "/tests/data/hf/llama-gqa"});
  EXPECT_EQ(ids.code, 2);
  EXPECT_NE(ids.err.find("--tokenizer DIR"), std::string::npos) << ids.err;
  const std::string run = ::testing::TempDir() + "chat_without_template";
  std::filesystem::remove_all(run);
  const Ended trained = run_in_process(
      {"train", TESSERA_SOURCE_DIR "/examples/demo.toml", "--threads", "--mesh", "dp=1", "--set",
       "train.steps=1", "--set", "model.layers=1", "--set", "logging.run_dir=" + run});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Ended text = run_in_process({"chat", run});
  EXPECT_EQ(text.code, 2);
  EXPECT_NE(text.err.find("--chat-template FILE"), std::string::npos) << text.err;
  std::filesystem::remove_all(run);
}

TEST(TypedLinesTest, APipeGivesItsLines) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  TypedLines lines(ends[0], /*is_terminal=*/false, console);
  const std::string text = "one\r\n\nlast";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), std::ssize(text));
  ::close(ends[1]);
  EXPECT_EQ(lines.next("> ").line, "one");
  EXPECT_EQ(lines.next("> ").line, "");
  EXPECT_EQ(lines.next("> ").line, "last");
  EXPECT_TRUE(lines.next("> ").is_end);
  EXPECT_TRUE(lines.next("> ").is_end);
  EXPECT_EQ(err.str(), "");
  ::close(ends[0]);
}

TEST(TypedLinesTest, OnATerminalTheFirstInterruptAsksAndALineGoesOn) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  TypedLines lines(ends[0], /*is_terminal=*/true, console);
  std::thread typist([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ::kill(::getpid(), SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    (void)!::write(ends[1], "hi\n", 3);
  });
  EXPECT_EQ(lines.next("> ").line, "hi");
  typist.join();
  EXPECT_NE(err.str().find("(^C again ends"), std::string::npos) << err.str();
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace tessera

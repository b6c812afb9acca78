#include "text/continue_text.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "in_process.h"
#include "text/testing/scripted_model.h"

namespace tessera {
namespace {

using testing::Script;
using testing::ScriptedModel;

struct Written {
  std::string out, err, raw;
  AnswerEnd end;
  std::string refused;  // by a ConfigError
  int code = 0;         // of any other Error
};

// What somebody sees of it: on a terminal or, where `to_file`, in a file.
Written write(
    ContinueOptions options, const Script& script, bool to_file = false,
    const TextRoom& room = {100, 1000},
    const std::function<bool()>& unwanted = [] { return false; }) {
  std::ostringstream out, err, raw;
  Console console{.out = out, .err = err, .out_is_terminal = !to_file, .raw_out = &raw};
  options.model.model = "scripted";
  ScriptedModel model(script);
  Written written;
  try {
    written.end = continue_text(options, room, model, unwanted, console);
  } catch (const ConfigError& error) {
    written.refused = error.what();
  } catch (const Error& error) {
    written.refused = error.what();
    written.code = static_cast<int>(error.code());
  }
  written.out = out.str();
  written.err = err.str();
  written.raw = raw.str();
  return written;
}

Script saying(const std::string& text) {
  Script script;
  script.answer = [text](const std::string&) { return text; };
  return script;
}

TEST(ContinueTextTest, WritesThePromptAndWhatFollows) {
  const Written written = write({.prompt = "Once"}, saying(" upon a time"));
  EXPECT_EQ(written.out, "Once upon a time\n");
  EXPECT_EQ(written.err, "");
  EXPECT_EQ(written.end.reason, serve::FinishReason::kStop);
}

// Every byte is a token, so each character of two bytes comes in two parts.
TEST(ContinueTextTest, CharactersComeWhole) {
  const Written written = write({.prompt = "é"}, saying("è€𝄞"));
  EXPECT_EQ(written.out, "éè€𝄞\n");
}

TEST(ContinueTextTest, AFileGetsTheBytesAndATerminalCharacters) {
  const std::string bytes = "a\xff\x1b[2J";
  EXPECT_EQ(write({.prompt = "x"}, saying(bytes), /*to_file=*/true).raw, "x" + bytes + "\n");
  const Written seen = write({.prompt = "x"}, saying(bytes));
  EXPECT_EQ(seen.raw, "");
  EXPECT_NE(seen.out.find("xa\xEF\xBF\xBD"), std::string::npos) << seen.out;
}

TEST(ContinueTextTest, AStopIsFoundOverTokensAndLeftOut) {
  ContinueOptions options{.prompt = "x"};
  options.sampling.stops = {"\n\n", "END"};
  EXPECT_EQ(write(options, saying("one\ntwoEN ENDmore")).out, "xone\ntwoEN \n");
  EXPECT_EQ(write(options, saying("one\n\nEND")).out, "xone\n");
  EXPECT_EQ(write(options, saying("one EN")).out, "xone EN\n") << "what only began is no stop";
  EXPECT_EQ(write(options, saying("one\n\ntwo"), /*to_file=*/true).raw, "xone\n");
}

TEST(ContinueTextTest, JsonHasTheTextAndWhyItEnds) {
  ContinueOptions options{.prompt = "On", .json = true};
  options.sampling.tokens = 3;
  const nlohmann::json json = nlohmann::json::parse(write(options, saying("ce upon")).out);
  EXPECT_EQ(json.at("kind"), "generation");
  EXPECT_EQ(json.at("text"), "Once ");
  EXPECT_EQ(json.at("finish_reason"), "length");
}

TEST(ContinueTextTest, IdsGoInAndComeOut) {
  ContinueOptions options{.prompt = "[79, 110]", .token_ids = true};
  EXPECT_EQ(write(options, saying("ce")).out, "79 110 99 101\n");
  options.json = true;
  const nlohmann::json json = nlohmann::json::parse(write(options, saying("ce")).out);
  EXPECT_EQ(json.at("prompt"), (std::vector{79, 110}));
  EXPECT_EQ(json.at("token_ids"), (std::vector{99, 101}));
  options.prompt = "79, x";
  EXPECT_NE(write(options, saying("")).refused.find("--prompt has 'x'"), std::string::npos);
  options.prompt = "256";
  EXPECT_NE(write(options, saying("")).refused.find("the model has 0 to 255"), std::string::npos);
}

TEST(ContinueTextTest, WhatHasNoPositionsIsRefusedWithBothNumbers) {
  ContinueOptions options{.prompt = std::string(90, 'x')};
  options.sampling.tokens = 11;
  EXPECT_EQ(write(options, saying("y"), false, {100, 100}).refused,
            "the prompt has 90 tokens and the answer may have 11: 101 together, but 'scripted' has "
            "positions for 100; use --tokens 10");
  options.model.max_context = 95;
  EXPECT_NE(write(options, saying("y"), false, {100, 95}).refused.find("--max-context is 95"),
            std::string::npos);
  options.model.max_context = 0;
  options.sampling.tokens = -1;
  options.prompt = std::string(100, 'x');
  EXPECT_NE(write(options, saying("y"), false, {100, 100}).refused.find("use a shorter prompt"),
            std::string::npos);
}

TEST(ContinueTextTest, ATextThatIsAllTheModelWasMadeForSaysSo) {
  const ContinueOptions options{.prompt = std::string(90, 'x')};
  const Written written = write(options, saying(std::string(500, 'y')));
  EXPECT_EQ(written.out.size(), 101U);
  EXPECT_NE(written.err.find("a prompt of 90 tokens and 10 more are what 'scripted' was made for; "
                             "--tokens N lets it go on"),
            std::string::npos)
      << written.err;
  const Written learned = write(options, saying(std::string(500, 'y')), false, {100, 100});
  EXPECT_EQ(learned.err.find("--tokens"), std::string::npos) << "it cannot";
  ContinueOptions asked = options;
  asked.sampling.tokens = 30;
  const Written longer = write(asked, saying(std::string(500, 'y')));
  EXPECT_EQ(longer.err, "") << "as long as was asked for";
  EXPECT_EQ(longer.out.size(), 121U);
}

TEST(ContinueTextTest, WhatIsUnwantedEnds) {
  std::atomic<bool> unwanted{false};
  Script script = saying(std::string(80, 'y'));
  script.before_token = [&](int64_t token) {
    if (token == 5) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (token == 5) unwanted = true;
    if (token > 5) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  const Written written =
      write({.prompt = "x"}, script, false, {100, 100}, [&] { return unwanted.load(); });
  EXPECT_EQ(written.end.reason, serve::FinishReason::kCancelled);
  EXPECT_TRUE(written.out.starts_with("xy"));
  EXPECT_LT(written.out.size(), 80U);
}

TEST(ContinueTextTest, FailuresHaveTheirCodes) {
  Script script = saying("y");
  script.fails_with = "the model's logits are NaN or Inf";
  const Written diverged = write({.prompt = "x"}, script);
  EXPECT_EQ(diverged.code, 4);
  EXPECT_NE(diverged.refused.find("weights hold NaN or Inf"), std::string::npos);
  script.fails_with = "a rank is lost";
  EXPECT_EQ(write({.prompt = "x"}, script).code, 1);
}

TEST(ContinueTextTest, FlagsThatCannotBeMeantAreRefused) {
  const auto refusal = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "--run", "none", "--prompt", "x"});
    const Ended ended = run_in_process(more);
    EXPECT_EQ(ended.code, 2);
    return ended.err;
  };
  EXPECT_NE(refusal({"--top-p", "1.5"}).find("--top-p is 1.5"), std::string::npos);
  EXPECT_NE(refusal({"--min-p", "2"}).find("--min-p is 2"), std::string::npos);
  EXPECT_NE(refusal({"--tokens", "2M"}).find("--tokens is 2000000"), std::string::npos);
  EXPECT_NE(refusal({"--mesh", "cp=2"}).find("leave out cp"), std::string::npos);
  EXPECT_NE(refusal({"--mesh", "dp=2"}).find("dp goes with --in"), std::string::npos);
  EXPECT_NE(refusal({"--in", "x.jsonl"}).find("--in and --out belong together"), std::string::npos);
  EXPECT_NE(refusal({"--in", "x.jsonl", "--out", "y.jsonl"}).find("leave out --prompt"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera

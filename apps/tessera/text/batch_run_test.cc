#include "text/batch_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/error.h"
#include "text/batch_progress.h"
#include "text/testing/scripted_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Script;
using testing::ScriptedModel;

class BatchRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "batch_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    options_.files = {folder_ + "/in.jsonl", folder_ + "/out.jsonl"};
    script_.answer = [](const std::string& prompt) { return "<" + prompt + ">"; };
  }
  void TearDown() override { fs::remove_all(folder_); }

  void ask(const std::string& lines) { write(options_.files.in, lines); }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  [[nodiscard]] std::string written() const {
    std::ifstream in(options_.files.out, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  [[nodiscard]] std::vector<json> answers() const {
    std::vector<json> all;
    std::istringstream lines(written());
    for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line));
    return all;
  }
  static std::string text_of(const json& answer) {
    return answer.at("response").at("choices").at(0).at("text");
  }

  BatchOutcome run() {
    ScriptedModel model(script_, TESSERA_SOURCE_DIR "/tests/data/templates/chatml.jinja");
    return run(model);
  }
  BatchOutcome run(ScriptedModel& model) {
    std::ostringstream out;
    Console console{.out = out, .err = err_};
    RequestLines requests(options_.files.in);
    AnswerLines lines(options_.files.out, options_.files.overwrite);
    const AnswerLines::Found found = lines.go_on(requests);
    const BatchOutcome outcome =
        answer_requests(options_, model, requests, lines, found,
                        count_requests(options_.files.in).value_or(0), unwanted_, console);
    taken_ = model.scripted().taken;
    seeds_ = model.scripted().seeds;
    return outcome;
  }
  std::string refusal() {
    try {
      run();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  static std::string prompts(int first, int last) {
    std::string lines;
    for (int i = first; i <= last; ++i) lines += "{\"prompt\":\"p" + std::to_string(i) + "\"}\n";
    return lines;
  }

  std::string folder_;
  AnswerFileOptions options_;
  Script script_;
  std::function<bool()> unwanted_ = [] { return false; };
  std::ostringstream err_;
  std::vector<std::string> taken_;
  std::vector<uint64_t> seeds_;
};

TEST_F(BatchRunTest, AnswersEveryShape) {
  ask("{\"prompt\": \"one\"}\n\n"
      "{\"id\": 7, \"prompt\": [116, 119, 111], \"max_tokens\": 3}\n"
      "{\"custom_id\": \"c\", \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n"
      "{\"custom_id\": \"d\", \"method\": \"POST\", \"url\": \"/v1/completions\", "
      "\"body\": {\"prompt\": \"four\", \"stream\": true}}");
  const BatchOutcome outcome = run();
  EXPECT_EQ(outcome.answers, 4);
  EXPECT_EQ(outcome.errors, 0);
  EXPECT_FALSE(outcome.stopped);
  const std::vector<json> all = answers();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(text_of(all[0]), "<one>");
  EXPECT_FALSE(all[0].contains("id"));
  EXPECT_EQ(all[1].at("id"), 7);
  EXPECT_EQ(all[1].at("line"), 3) << "the blank one counts";
  EXPECT_EQ(text_of(all[1]), "<tw");
  EXPECT_EQ(all[2].at("custom_id"), "c");
  EXPECT_EQ(all[2].at("response").at("object"), "chat.completion");
  EXPECT_EQ(all[2].at("response").at("choices").at(0).at("message").at("content"),
            "<<|turn|>user\nhi<|end|>\n<|turn|>assistant\n>");
  EXPECT_EQ(text_of(all[3]), "<four>");
}

TEST_F(BatchRunTest, KeepsTheOrderWhoeverEndsFirst) {
  script_.last_first = true;
  options_.in_flight = 7;
  ask(prompts(1, 60));
  run();
  const std::vector<json> all = answers();
  ASSERT_EQ(all.size(), 60U);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(text_of(all[i]), "<p" + std::to_string(i + 1) + ">");
  }
}

TEST_F(BatchRunTest, ABadLineHasAnErrorAndTheOthersTheirAnswers) {
  ask("{\"prompt\": \"a\"}\nno json\n[1]\n{\"prompt\": \"b\", \"temprature\": 1}\n"
      "{\"prompt\": \"c\", \"max_tokens\": 5000}\n{\"model\": \"other\", \"prompt\": \"d\"}\n"
      "{\"prompt\": \"e\"}\n");
  const BatchOutcome outcome = run();
  EXPECT_EQ(outcome.answers, 7);
  EXPECT_EQ(outcome.errors, 5);
  const std::vector<json> all = answers();
  EXPECT_EQ(text_of(all[0]), "<a>");
  EXPECT_EQ(text_of(all[6]), "<e>");
  const auto message = [&](size_t i) {
    return all[i].at("error").at("message").get<std::string>();
  };
  EXPECT_NE(message(1).find("line 2"), std::string::npos) << message(1);
  EXPECT_NE(message(2).find("line 3 is no JSON object"), std::string::npos) << message(2);
  EXPECT_NE(message(3).find("temperature"), std::string::npos) << message(3);
  EXPECT_NE(message(4).find("5000"), std::string::npos) << message(4);
  EXPECT_EQ(all[5].at("error").at("code"), "model_not_found");
  EXPECT_EQ(all[5].at("line"), 6);
}

TEST_F(BatchRunTest, FlagsFillInWhatARequestLeavesOpen) {
  options_.sampling.tokens = 2;
  options_.sampling.seed = 100;
  ask("{\"prompt\": \"a\"}\n{\"prompt\": \"b\", \"seed\": 5, \"max_tokens\": 3}\n");
  run();
  EXPECT_EQ(text_of(answers()[0]), "<a");
  EXPECT_EQ(text_of(answers()[1]), "<b>");
  EXPECT_EQ(seeds_, (std::vector<uint64_t>{101, 5})) << "another seed on every line";
}

TEST_F(BatchRunTest, GoesOnWithWhatIsThere) {
  ask(prompts(1, 3));
  run();
  const std::string three = written();
  ask(prompts(1, 5));
  // As if the fourth had been cut off.
  write(options_.files.out, three + "{\"line\":4,\"requ");
  run();
  EXPECT_EQ(taken_, (std::vector<std::string>{"p4", "p5"}));
  EXPECT_TRUE(written().starts_with(three));
  ASSERT_EQ(answers().size(), 5U);
  EXPECT_EQ(text_of(answers()[3]), "<p4>");
  run();
  EXPECT_TRUE(taken_.empty()) << "all is answered";
  options_.files.overwrite = true;
  run();
  EXPECT_EQ(taken_.size(), 5U);
}

TEST_F(BatchRunTest, NeverWritesOverWhatIsNotItsOwn) {
  ask(prompts(1, 3));
  for (const std::string& other : {std::string("{\"text\": \"mine\"}\n"), std::string("mine")}) {
    write(options_.files.out, other);
    EXPECT_NE(refusal().find("line 1 is no answer of this command"), std::string::npos);
    EXPECT_EQ(written(), other);
  }
  fs::remove(options_.files.out);
  run();
  ask("{\"prompt\":\"p1\"}\n{\"prompt\":\"changed\"}\n{\"prompt\":\"p3\"}\n");
  EXPECT_NE(refusal().find("line 2 answers another request than line 2 of --in"),
            std::string::npos);
  ask(prompts(1, 2));
  EXPECT_NE(refusal().find("answers more requests than --in has"), std::string::npos);
}

TEST_F(BatchRunTest, TwoDoNotWriteOneFile) {
  ask(prompts(1, 1));
  const AnswerLines first(options_.files.out, false);
  EXPECT_NE(refusal().find("another tessera generate writes"), std::string::npos);
}

TEST_F(BatchRunTest, AFullQueueIsWaitedFor) {
  script_.most_waiting = 2;
  ask(prompts(1, 40));
  EXPECT_EQ(run().errors, 0);
  EXPECT_EQ(answers().size(), 40U);
}

TEST_F(BatchRunTest, StoppedHalfWayItGivesTheSameFileInTwo) {
  ask(prompts(1, 30));
  run();
  const std::string whole = written();
  fs::remove(options_.files.out);
  std::atomic<int64_t> tokens{0};
  options_.in_flight = 3;
  script_.before_token = [&](int64_t) {
    if (++tokens > 40) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  unwanted_ = [&] { return tokens > 40; };
  const BatchOutcome half = run();
  EXPECT_TRUE(half.stopped);
  EXPECT_LT(half.answers, 30);
  EXPECT_EQ(std::ssize(answers()), half.answers);
  script_.before_token = nullptr;
  unwanted_ = [] { return false; };
  run();
  const auto without_time = [](std::string text) {
    for (size_t at = 0; (at = text.find("\"created\":", at)) != std::string::npos; ++at) {
      text.erase(at + 10, text.find(',', at) - at - 10);
    }
    return text;
  };
  EXPECT_EQ(without_time(written()), without_time(whole));
}

TEST_F(BatchRunTest, ALostModelKeepsWhatIsWritten) {
  ask(prompts(1, 30));
  options_.in_flight = 2;
  ScriptedModel* seen = nullptr;
  std::atomic<int64_t> tokens{0};
  script_.before_token = [&](int64_t) {
    if (++tokens != 20) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until the others are written
    seen->scripted().die("rank 1 is lost");
  };
  ScriptedModel model(script_);
  seen = &model;
  try {
    run(model);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRequeue);
    EXPECT_NE(std::string(error.what()).find("rank 1 is lost; "), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("the same command goes on with the rest"),
              std::string::npos);
  }
  const size_t before = answers().size();
  EXPECT_GT(before, 0U);
  EXPECT_LT(before, 30U);
  script_.before_token = nullptr;
  run();
  EXPECT_EQ(answers().size(), 30U);
}

// An answer that fails alone is that line's error.
TEST_F(BatchRunTest, AnAnswerThatFailsIsAnError) {
  script_.fails_with = "the model's logits are NaN or Inf";
  ask(prompts(1, 2));
  EXPECT_EQ(run().errors, 2);
  EXPECT_EQ(answers()[0].at("error").at("code"), "engine_failed");
}

TEST_F(BatchRunTest, AnEndlessLineIsRefusedInBoundedMemory) {
  ask("{\"prompt\": \"" + std::string(size_t{5} << 20, 'x') + "\"}\n{\"prompt\": \"b\"}\n");
  const BatchOutcome outcome = run();
  EXPECT_EQ(outcome.errors, 1);
  EXPECT_EQ(text_of(answers()[1]), "<b>");
}

TEST(BatchProgressTest, TheLineFitsItsTerminal) {
  const BatchProgress progress = {
      .done = 120, .total = 240, .errors = 3, .before = 20, .tokens = 5000, .seconds = 50};
  EXPECT_EQ(batch_text(progress, 0), "120/240 50% | ETA 1m | 100 tok/s | 3 errors");
  EXPECT_EQ(batch_text(progress, 60),
            "[#######--------] 120/240 50% | ETA 1m | 100 tok/s | 3 errors");
  EXPECT_TRUE(batch_text(progress, 120).starts_with("[###############---------------] 120/240"));
  EXPECT_EQ(batch_text({.done = 1}, 80), "1 answer") << "a pipe does not say how many";
}

}  // namespace
}  // namespace tessera

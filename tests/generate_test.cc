// Models that answer on the command line: texts, files of requests and conversations, by the same
// engine that serves.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "support/command.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Command;
using testing::CommandResult;
using testing::read_file;
using testing::words_of;

const std::string kTiny = std::string(TESSERA_SHARED_DATA) + "/hf-tiny/";
const std::string kTemplates = TESSERA_SOURCE_DIR "/tests/data/templates/";

std::string joined(const json& ids, const char* between) {
  std::string text;
  for (const json& id : ids) text += (text.empty() ? "" : between) + id.dump();
  return text;
}

// What transformers says, greedily and in float64. That of mixtral is not what its own recorded
// logits say.
class GreedyTest : public testing::CommandTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    path_ = kTiny + GetParam();
    if (!fs::exists(path_ + "/greedy.json")) GTEST_SKIP() << "no " << path_;
    greedy_ = json::parse(read_file(path_ + "/greedy.json"));
  }
  [[nodiscard]] std::vector<std::string> asked() const {
    const size_t more = greedy_.at("greedy").size() - greedy_.at("prompt").size();
    return {"--prompt", joined(greedy_.at("prompt"), ","), "--tokens", std::to_string(more)};
  }
  std::string path_;
  json greedy_;
};

TEST_P(GreedyTest, IsThatOfTransformersOnEveryMesh) {
  for (const std::string mesh : {"tp=1", "tp=2,pp=2"}) {
    SCOPED_TRACE(mesh);
    EXPECT_EQ(succeed("generate --token-ids --temperature 0 --dtype f64 --mesh " + mesh +
                          " --run " + path_,
                      asked())
                  .out,
              joined(greedy_.at("greedy"), " ") + "\n");
  }
}

TEST_P(GreedyTest, IsTheSameInAFileOfRequests) {
  const size_t prompt = greedy_.at("prompt").size();
  const json answer(std::vector<json>(greedy_.at("greedy").begin() + static_cast<long>(prompt),
                                      greedy_.at("greedy").end()));
  json request = {{"prompt", greedy_.at("prompt")},
                  {"max_tokens", answer.size()},
                  {"temperature", 0},
                  {"return_token_ids", true}};
  std::string lines = request.dump() + "\n";
  // Others beside it, of other lengths, begin alike or not.
  for (size_t i = 1; i < 12; ++i) {
    json other = request;
    other["prompt"].erase(other["prompt"].begin() + static_cast<long>(i % 5 + 1),
                          other["prompt"].end());
    other["temperature"] = 1;
    other["max_tokens"] = i;
    lines += other.dump() + "\n";
  }
  lines += request.dump() + "\n";
  folder_.write("in.jsonl", lines);
  succeed("generate --dtype f64 --in in.jsonl --out out.jsonl --run " + path_);
  std::istringstream out(read_file(folder_.path("out.jsonl")));
  std::vector<json> answers;
  for (std::string line; std::getline(out, line);) answers.push_back(json::parse(line));
  ASSERT_EQ(answers.size(), 13U);
  for (const size_t i : {size_t{0}, size_t{12}}) {
    const json& choice = answers[i].at("response").at("choices").at(0);
    EXPECT_EQ(joined(choice.at("token_ids"), " "), joined(answer, " "));
    EXPECT_EQ(choice.at("finish_reason"), "length");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GreedyTest,
                         ::testing::Values("gpt2", "llama-gqa", "llama31-rope", "mistral-window",
                                           "qwen2", "qwen3"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

class GenerateTest : public testing::CommandTest {
 protected:
  void SetUp() override {
    folder_.write("run.toml", testing::tiny_run_file());
    succeed("train run.toml --set train.seq_len=64");
  }
  std::string answers(const std::string& more) {
    fs::remove(folder_.path("out.jsonl"));
    succeed("generate --run out --in in.jsonl --out out.jsonl " + more);
    std::string texts;
    std::istringstream lines(read_file(folder_.path("out.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      texts += json::parse(line).at("response").at("choices").dump() + "\n";
    }
    return texts;
  }
};

// What runs beside a request changes nothing of it, nor does the mesh.
TEST_F(GenerateTest, AnAnswerIsTheSameAloneAndAmongOthers) {
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += json{{"prompt", std::string(static_cast<size_t>(i % 7 + 1), 'a')},
                  {"max_tokens", i % 5 + 8}}
                 .dump() +
             "\n";
  }
  folder_.write("in.jsonl", lines);
  const std::string alone = answers("--in-flight 1");
  EXPECT_EQ(answers("--in-flight 20"), alone);
  EXPECT_EQ(answers("--mesh tp=2,pp=2"), alone);
  EXPECT_EQ(answers("--mesh dp=2"), alone);
  EXPECT_NE(answers("--seed 2"), alone);
}

TEST_F(GenerateTest, AnInterruptedFileIsGoneOnWith) {
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += "{\"prompt\":\"abc\",\"max_tokens\":50}\n";
  folder_.write("in.jsonl", lines);
  Command command(folder_, words_of("generate --run out --in in.jsonl --out out.jsonl"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < deadline &&
         read_file(folder_.path("out.jsonl")).empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  command.signal(SIGINT);
  const CommandResult result = command.finish();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_NE(result.err.find("the same command goes on with the rest"), std::string::npos)
      << result.err;
  const std::string before = read_file(folder_.path("out.jsonl"));
  const auto done = static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  ASSERT_GT(done, 0U);
  ASSERT_LT(done, 3000U);
  folder_.write("in.jsonl", lines.substr(0, lines.size() / 3000 * (done + 5)));
  EXPECT_NE(succeed("generate --run out --in in.jsonl --out out.jsonl")
                .out.find(std::to_string(done + 5).substr(0, 1)),
            std::string::npos);
  const std::string after = read_file(folder_.path("out.jsonl"));
  EXPECT_TRUE(after.starts_with(before));
  EXPECT_EQ(std::count(after.begin(), after.end(), '\n'), static_cast<long>(done + 5));
}

TEST_F(GenerateTest, BadLinesEndItWithOne) {
  folder_.write("in.jsonl", "{\"prompt\": \"a\"}\nno\n");
  const CommandResult result = run("generate --run out --in in.jsonl --out out.jsonl");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(result.out.starts_with("out.jsonl: 2 answers (1 error), ")) << result.out;
}

// Rotary positions go on where training ended, and learned ones do not. Nothing is ever cut.
TEST_F(GenerateTest, ALongTextKeepsItsBeginningOrIsRefused) {
  const CommandResult usual = succeed("generate --run out --prompt abc --temperature 0");
  EXPECT_EQ(usual.out.size(), 65U) << "what the model was made for";
  EXPECT_NE(usual.err.find("the text ends here"), std::string::npos) << usual.err;
  const std::string longer = "generate --run out --prompt abc --temperature 0 --tokens 100";
  const CommandResult more = succeed(longer);
  EXPECT_EQ(more.out.size(), 104U);
  EXPECT_TRUE(more.out.starts_with(usual.out.substr(0, 64)));
  EXPECT_NE(more.err.find("warning: texts of 103 tokens, but 'out' was made for 64"),
            std::string::npos)
      << more.err;
  const CommandResult refused = run(longer + " --max-context 64");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("103 together, but --max-context is 64; use --tokens 61"),
            std::string::npos)
      << refused.err;

  std::string gpt2 = testing::tiny_run_file();
  gpt2.replace(gpt2.find("kv_heads = 2"), 12, "kv_heads = 4\nfamily = \"gpt2\"");
  folder_.write("gpt2.toml", gpt2);
  succeed("train gpt2.toml --set logging.run_dir=learned");
  EXPECT_NE(run("generate --run learned --prompt abc --max-context 9")
                .err.find("--max-context is 9, but 'learned' has positions for 8 tokens"),
            std::string::npos);
  EXPECT_NE(run("generate --run learned --prompt abc --tokens 6")
                .err.find("9 together, but 'learned' has positions for 8; use --tokens 5"),
            std::string::npos);
}

TEST_F(GenerateTest, TheEndOfAPipeEndsAChat) {
  folder_.write("typed", "hello\n/reset\nagain\n");
  const std::string chat = "chat out --temperature 0 --tokens 5 --chat-template " + kTemplates +
                           "chatml.jinja --max-context 256";
  testing::CommandOptions shell;
  shell.program = "/bin/sh";
  const CommandResult result =
      Command(folder_, {"-c", std::string(TESSERA_BINARY) + " " + chat + " <typed"}, shell)
          .finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.find("> "), std::string::npos) << "no prompts in a pipe";
  const size_t half = result.out.size() / 2;
  EXPECT_GT(half, 1U);
}

}  // namespace
}  // namespace tessera

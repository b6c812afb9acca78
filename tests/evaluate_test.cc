// Log-probabilities against recorded logits, and what is made of them against sums by hand.
#include "train/verify/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "checkpoint/safetensors.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/tokenizer.h"
#include "spec/run_file/validate.h"
#include "support/command.h"
#include "support/hf_models.h"
#include "train/session/session.h"
#include "train/verify/difference.h"
#include "train/verify/scorer.h"

namespace tessera {
namespace {

using testing::CommandResult;
using testing::TestFolder;

std::string own_model(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/" + name;
}

// PyTorch computed these logits in float64; we compute in f32.
TEST(ScorerTest, GivesTheLogProbabilitiesOfTheRecordedLogits) {
  for (const char* name : testing::kHfModels) {
    const std::string folder = own_model(name);
    const SafetensorsFile golden = SafetensorsFile::open(folder + "/golden.safetensors");
    const std::vector<int64_t> shape = golden.at("logits").shape;  // batch, tokens, vocabulary
    const auto tokens = static_cast<size_t>(shape[1]), vocab = static_cast<size_t>(shape[2]);
    std::vector<double> logits(static_cast<size_t>(shape[0]) * tokens * vocab);
    std::vector<int64_t> ids(static_cast<size_t>(shape[0]) * tokens);
    golden.read("logits", std::span(logits));
    golden.read("input_ids", std::span(ids));
    std::vector<std::vector<int32_t>> texts;
    for (size_t b = 0; b < static_cast<size_t>(shape[0]); ++b) {
      // Their lengths differ.
      texts.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(b * tokens),
                         ids.begin() + static_cast<std::ptrdiff_t>((b + 1) * tokens - b));
    }
    const ModelFolder model = open_model_folder(folder);
    size_t seen = 0;
    Scorer(model).score(texts, [&](size_t i, std::span<const double> log_probabilities) {
      ++seen;
      ASSERT_EQ(log_probabilities.size(), texts[i].size() - 1);
      for (size_t t = 0; t < log_probabilities.size(); ++t) {
        const double* row = &logits[(i * tokens + t) * vocab];
        double sum = 0;
        for (size_t v = 0; v < vocab; ++v) sum += std::exp(row[v]);
        const double want = row[static_cast<size_t>(texts[i][t + 1])] - std::log(sum);
        EXPECT_NEAR(log_probabilities[t], want, 2e-5) << name << ", text " << i << ", token " << t;
      }
    });
    EXPECT_EQ(seen, texts.size());
  }
}

TEST(ScorerTest, LogSoftmaxByHand) {
  const std::array<float, 3> logits = {0, std::log(2.0F), std::log(5.0F)};
  EXPECT_NEAR(log_probability(logits, 0), std::log(1.0 / 8), 1e-6);
  EXPECT_NEAR(log_probability(logits, 2), std::log(5.0 / 8), 1e-6);
}

TEST(QuestionTest, ReadsTheUsualNames) {
  const Question a = parse_question(R"({"query": "q", "choices": ["x", "y"], "gold": 1})", "f:1");
  EXPECT_EQ(a.gold, 1U);
  EXPECT_EQ(parse_question(R"({"context": "q", "choices": ["x", "y"], "label": "0"})", "f:1").gold,
            0U);
  EXPECT_EQ(
      parse_question(R"({"question": "q", "choices": ["x", "y"], "answer": "B"})", "f:1").gold, 1U);
  EXPECT_EQ(joined("a", "b"), " b");
  EXPECT_EQ(joined("a ", "b"), "b");
  EXPECT_EQ(joined("a", "\nb"), "\nb");
  for (const char* bad :
       {"[1]", "{", R"({"choices": ["x", "y"], "gold": 1})", R"({"query": "q", "gold": 1})",
        R"({"query": "q", "choices": ["x"], "gold": 0})",
        R"({"query": "q", "choices": ["x", "y"], "gold": 2})",
        R"({"query": "q", "choices": ["x", 2], "gold": 0})",
        R"({"query": "q", "choices": ["x", "y"]})"}) {
    try {
      (void)parse_question(bad, "f.jsonl:7");
      FAIL() << bad;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("f.jsonl:7: ")) << error.what();
    }
  }
}

// A run that has learned "a b a b".
class EvaluateRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    while (text.size() < 4000) text += "a b ";
    folder_.write("text", text);
    TrainOptions options;
    RunSpec& spec = options.spec;
    spec.model.layers = 1;
    spec.model.hidden = 32;
    spec.model.ffn = 64;
    spec.model.heads = 4;
    spec.model.vocab = 256;
    spec.train.seq_len = 16;
    spec.train.global_batch = 4;
    spec.train.steps = 60;
    spec.train.threads = 1;
    spec.optimizer.lr = 1e-2;
    spec.data.path = folder_.path("text");
    spec.logging.run_dir = folder_.path("run");
    resolve(spec);
    run_training(options);
  }

  // The sum over the bytes of `text` from `first` on.
  double log_probability_of(const std::string& text, size_t first) {
    const ModelFolder model = open_model_folder(folder_.path("run"));
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
    double sum = 0;
    Scorer(model).score(std::span(&ids, 1), [&](size_t, std::span<const double> log_probabilities) {
      for (const double p : log_probabilities.subspan(first - 1)) sum += p;
    });
    return sum;
  }

  TestFolder folder_;
};

TEST_F(EvaluateRunTest, PerplexityIsOfEveryByteOnce) {
  const std::string text = "a b a b a b a b a b a b a b a b a b";  // more than two windows of 16
  folder_.write("valid.txt", text);
  const SetScore score =
      evaluate({.model = folder_.path("run"), .data = {folder_.path("valid.txt")}}).at(0);
  EXPECT_EQ(score.text.tokens, std::ssize(text) - 1);
  const double sum = log_probability_of(text.substr(0, 17), 1) +
                     log_probability_of(text.substr(16, 17), 1) +
                     log_probability_of(text.substr(32), 1);
  EXPECT_NEAR(score.text.loss, -sum / static_cast<double>(text.size() - 1), 1e-6);
  EXPECT_LT(score.text.perplexity(), 1.6);
  EXPECT_NEAR(score.text.bits_per_byte(), -sum / std::log(2.0) / static_cast<double>(text.size()),
              1e-6);
}

TEST_F(EvaluateRunTest, AccuracyIsOfTheLikeliestChoice) {
  // The right one is longer: it loses in the sum and wins for each character.
  const std::string query = "a b a";
  ASSERT_GT(log_probability_of("a b a b", 5), log_probability_of("a b a b a b", 5));
  ASSERT_GT(log_probability_of("a b a b a b", 5) / 5, log_probability_of("a b a b", 5));
  folder_.write("questions.jsonl", R"({"query": "a b a", "choices": ["b", "q"], "gold": 0})"
                                   "\n"
                                   R"({"query": "a b a", "choices": ["b", "b a b"], "gold": 1})"
                                   "\n");
  const CommandResult result =
      testing::tessera(folder_, "eval run --data questions.jsonl --data text --limit 3 --json");
  ASSERT_EQ(result.code, 0) << result.err;
  const auto sets = result.json().at("sets");
  EXPECT_EQ(sets.at(0).at("questions"), 2);
  EXPECT_EQ(sets.at(0).at("accuracy"), 0.5);
  EXPECT_EQ(sets.at(0).at("accuracy_normalized"), 1.0);
  EXPECT_EQ(sets.at(1).at("tokens"), 48);
  EXPECT_NE(testing::tessera(folder_, "eval run --data questions.jsonl").out.find("0.5000"),
            std::string::npos);
}

// As the usual models come: pieces of several bytes, and a token that begins every text.
TEST(EvaluateTest, QuestionsAreScoredByTheTokensOfAFolder) {
  const TestFolder folder;
  folder.write("text", std::string(2000, 'x'));
  folder.write("run.toml",
               "[model]\nlayers=2\nhidden=32\nffn=64\nheads=4\nvocab=600\ninit_std=0.3\n"
               "[train]\nseq_len=48\nsteps=1\nthreads=1\n[data]\npath=\"text\"\n");
  ASSERT_EQ(testing::tessera(folder, "train run.toml -q --set logging.run_dir=run").code, 0);
  ASSERT_EQ(testing::tessera(folder, "export-hf run model").code, 0);
  std::filesystem::copy(
      std::string(TESSERA_SOURCE_DIR) + "/tests/data/tokenizers/llama3/tokenizer.json",
      folder.path("model/tokenizer.json"));
  const Tokenizer tokenizer = Tokenizer::load(folder.path("model"));
  TokenEncoder encoder(tokenizer);
  const ModelFolder model = open_model_folder(folder.path("model"));
  const auto ids_of = [&](const std::string& text, bool begins) {
    std::vector<int32_t> ids;
    encoder.encode(text, begins, ids);
    return ids;
  };
  const auto sum_of = [&](const std::string& query, const std::string& choice, bool begins) {
    const std::vector<int32_t> whole = ids_of(query + joined(query, choice), begins);
    const size_t before = ids_of(query, begins).size();
    double sum = 0;
    Scorer(model).score(std::span(&whole, 1), [&](size_t, std::span<const double> p) {
      for (size_t t = before; t < whole.size(); ++t) sum += p[t - 1];
    });
    return sum;
  };
  ASSERT_EQ(ids_of("the", true).size(), ids_of("the", false).size() + 1) << "it has no beginning";
  const std::vector<std::string> choices = {"a mat", "12 houses", "the world again", "no"};
  std::string lines;
  int first_is_right = 0, differs_without_beginning = 0;
  for (int q = 0; q < 12; ++q) {
    const std::string query = fmt::format("Hello {} of the", q);
    std::vector<double> sums, without;
    for (const std::string& choice : choices) {
      sums.push_back(sum_of(query, choice, true));
      without.push_back(sum_of(query, choice, false));
    }
    const auto best = std::max_element(sums.begin(), sums.end()) - sums.begin();
    first_is_right += best == 0 ? 1 : 0;
    differs_without_beginning += std::abs(sums[0] - without[0]) > 1e-3 ? 1 : 0;
    lines += nlohmann::json{{"query", query}, {"choices", choices}, {"gold", best}}.dump() + "\n";
  }
  EXPECT_GT(differs_without_beginning, 6);
  EXPECT_LT(first_is_right, 12);
  folder.write("questions.jsonl", lines);
  const CommandResult result = testing::tessera(folder, "eval model --data questions.jsonl --json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.json().at("sets").at(0).at("questions"), 12);
  EXPECT_EQ(result.json().at("sets").at(0).at("accuracy"), 1.0);
}

// Other programs compare what they compute with it: here the values that PyTorch recorded.
TEST(EvaluateTest, WritesTheLogitsOfGivenIds) {
  const TestFolder folder;
  for (const char* name : {"llama-gqa", "qwen3", "gpt2", "mistral-window", "mixtral"}) {
    SCOPED_TRACE(name);
    const SafetensorsFile golden = SafetensorsFile::open(own_model(name) + "/golden.safetensors");
    const std::vector<int64_t> shape = golden.at("logits").shape;  // [rows, length, vocab]
    std::vector<int64_t> ids(static_cast<size_t>(shape[0] * shape[1]));
    golden.read("input_ids", std::span(ids));
    nlohmann::json rows;
    for (size_t i = 0; i < ids.size(); ++i)
      rows[i / static_cast<size_t>(shape[1])].push_back(ids[i]);
    folder.write("ids.json", rows.dump());
    const CommandResult result = testing::tessera(
        folder, "eval " + own_model(name) + " --ids ids.json --logits out.safetensors");
    ASSERT_EQ(result.code, 0) << result.err;
    const SafetensorsFile out = SafetensorsFile::open(folder.path("out.safetensors"));
    ASSERT_EQ(out.at("logits").shape, shape);
    std::vector<double> mine(ids.size() * static_cast<size_t>(shape[2])), theirs(mine.size());
    out.read("logits", std::span(mine));
    golden.read("logits", std::span(theirs));
    EXPECT_LE(relative_difference(mine, theirs), 1e-5);
    std::vector<int64_t> again(ids.size());
    out.read("input_ids", std::span(again));
    EXPECT_EQ(again, ids);
  }
}

TEST(EvaluateTest, RefusesIdsThatAreNone) {
  const TestFolder folder;
  const std::string model = own_model("llama-gqa");
  for (const char* ids : {"", "[]", "[[]]", "[[1], [1, 2]]", "[[-1]]", "[[1.5]]", "[[99]]", "{}"}) {
    folder.write("ids.json", ids);
    const CommandResult result =
        testing::tessera(folder, "eval " + model + " --ids ids.json --logits x.safetensors");
    EXPECT_EQ(result.code, 2) << ids << ": " << result.err;
  }
  EXPECT_EQ(testing::tessera(folder, "eval " + model).code, 2);
  EXPECT_EQ(testing::tessera(folder, "eval " + model + " --ids ids.json").code, 2);
}

TEST_F(EvaluateRunTest, RefusesWhatCannotBe) {
  folder_.write("bad.jsonl", "{\"query\": 1}\n");
  const CommandResult bad = testing::tessera(folder_, "eval run --data bad.jsonl");
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("bad.jsonl:1"), std::string::npos) << bad.err;
  EXPECT_EQ(testing::tessera(folder_, "eval nothing --data text").code, 2);
  EXPECT_EQ(testing::tessera(folder_, "eval run --data nothing").code, 2);
  EXPECT_EQ(testing::tessera(folder_, "eval " + own_model("llama-gqa") + " --data text").code, 2)
      << "it has no tokenizer";
}

}  // namespace
}  // namespace tessera

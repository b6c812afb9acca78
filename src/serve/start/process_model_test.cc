// Models whose ranks are processes: what they say, and what happens where one is lost.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "launch/testing/test_process.h"
#include "serve/testing/served_model.h"
#include "serve/testing/start_scene.h"
#include "serve/testing/text_listener.h"

extern char** environ;

namespace tessera::serve {
namespace {

using namespace tessera::serve::testing;
using tessera::testing::contains;
using tessera::testing::gone_soon;
using tessera::testing::TestFolder;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Far above what is promised, so that a busy machine does not fail a test; far below for ever.
constexpr milliseconds kSoon{60'000};

// The processes that this one has started and that are there, in the order of their ids.
std::vector<pid_t> children() {
  std::vector<pid_t> all;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "children");
    for (pid_t pid = 0; file >> pid;) all.push_back(pid);
  }
  std::sort(all.begin(), all.end());
  return all;
}

// What was said to people.
class Said {
 public:
  std::function<void(const std::string&)> listener() {
    return [this](const std::string& text) {
      const std::scoped_lock lock(mutex_);
      lines_.push_back(text);
    };
  }
  bool has(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    return std::any_of(lines_.begin(), lines_.end(),
                       [&](const std::string& line) { return contains(line, text); });
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

StartOptions process_options(const std::string& model, int64_t tp, int64_t pp) {
  StartOptions options = start_options(model);
  options.processes = true;
  options.ranks.tp = tp;
  options.ranks.pp = pp;
  options.environment = environment_from(environ);
  return options;
}

bool soon(const std::function<bool()>& is) {
  for (const auto until = Clock::now() + kSoon; Clock::now() < until;) {
    if (is()) return true;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return false;
}

bool answers(Generator& generator) {
  const auto listener = std::make_shared<TextListener>();
  if (generator.submit(greedy_request({1, 2, 3}, 2), listener).refused != Refused::kNo) {
    return false;
  }
  return listener->wait(kSoon) && listener->choice().finish == FinishReason::kLength;
}

TEST(ProcessModelTest, SaysWhatThreadsSay) {
  const NothingIsLeft check;
  const std::string model = model_folders().front();
  const Text prompt = {3, 1, 4, 1, 5};
  GenerationRequest request = greedy_request(prompt, 12);
  request.sampling.temperature = 0.8;
  request.sampling.seed = 5;
  const auto again = [&] {
    GenerationRequest copy = greedy_request(prompt, 12);
    copy.sampling = request.sampling;
    return copy;
  };
  const auto threads = start_model(start_options(model));
  const std::vector<int32_t> expected = answer_of(threads->generator(), again());
  const TestFolder folder;
  for (const auto& [tp, pp] : {std::pair{1, 1}, std::pair{2, 2}}) {
    Said said;
    StartOptions options = process_options(model, tp, pp);
    options.say = said.listener();
    options.trace = folder.path("trace.json");
    {
      const auto started = start_model(options);
      EXPECT_EQ(answer_of(started->generator(), again()), expected) << tp << " x " << pp;
      EXPECT_EQ(started->generator().stats().pages_used, 0);
      EXPECT_EQ(started->gave_up(), std::nullopt);
      EXPECT_EQ(std::ssize(children()), tp * pp);
    }
    EXPECT_TRUE(said.has("rank 0 loads its weights"));
    EXPECT_TRUE(children().empty());
    const auto trace = nlohmann::json::parse(tessera::testing::read_file(options.trace));
    EXPECT_GT(trace["traceEvents"].size(), 12U);
  }
}

// Masks go to the rank that samples behind their frame, as messages of their own.
TEST(ProcessModelTest, AGrammarHoldsWhatProcessesWrite) {
  const NothingIsLeft check;
  const TestFolder folder;
  const std::string run = train_run(folder, "pp=2");
  const auto text_of = [](const StartOptions& options) {
    const auto started = start_model(options);
    GenerationRequest request = greedy_request(started->served().words->encode("a", true), 30);
    request.sampling.temperature = 1;
    request.choices = 2;
    request.grammar =
        started->served().make_grammar({{"type", "object"},
                                        {"properties", {{"is", {{"type", "boolean"}}}}},
                                        {"required", {"is"}},
                                        {"additionalProperties", false}});
    auto listener = std::make_shared<TextListener>(request.choices);
    EXPECT_EQ(started->generator().submit(std::move(request), listener).refused, Refused::kNo);
    EXPECT_TRUE(listener->wait());
    EXPECT_EQ(listener->choice().finish, FinishReason::kStop) << listener->choice().why;
    std::string text;
    for (const int32_t byte : listener->ids()) text += static_cast<char>(byte);
    return text;
  };
  const std::string expected = text_of(start_options(run));
  const auto json = nlohmann::json::parse(expected, nullptr, false);
  EXPECT_TRUE(json.is_object() && json["is"].is_boolean()) << expected;
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    EXPECT_EQ(text_of(process_options(run, tp, pp)), expected) << tp << " x " << pp;
  }
}

// Requests that are under way hear of it, the next ones are answered by new ranks; and in the end
// nobody is.
TEST(ProcessModelTest, ALostRankIsStartedAgainAsOftenAsAsked) {
  const NothingIsLeft check;
  Said said;
  StartOptions options = process_options(testing::greedy_folders().front(), 2, 1);
  options.restarts = 1;
  options.say = said.listener();
  const auto started = start_model(options);
  Generator& generator = started->generator();
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<TextListener>> heard;
    for (int i = 0; i < 12; ++i) {
      auto listener = std::make_shared<TextListener>();
      GenerationRequest request = greedy_request({1, 2, i}, 60);
      ASSERT_EQ(generator.submit(std::move(request), listener).refused, Refused::kNo);
      heard.push_back(std::move(listener));
    }
    ASSERT_TRUE(heard.front()->wait_for_tokens(1, kSoon));
    ::kill(children().at(1), round == 0 ? SIGKILL : SIGSTOP);
    int failed = 0;
    for (const auto& one : heard) {
      ASSERT_TRUE(one->wait(kSoon));
      EXPECT_EQ(one->broken, "");
      if (one->choice().finish != FinishReason::kFailed) continue;
      ++failed;
      EXPECT_TRUE(contains(one->choice().why, "rank 1")) << one->choice().why;
      EXPECT_TRUE(contains(one->choice().why, round == 0 ? "SIGKILL" : "stopped"))
          << one->choice().why;
    }
    EXPECT_GT(failed, 0);
    if (round > 0) break;
    EXPECT_TRUE(soon([&] { return answers(generator); }));
    EXPECT_TRUE(said.has("starts again")) << "with what was lost";
    EXPECT_EQ(generator.stats().pages_used, 0);
    EXPECT_EQ(started->gave_up(), std::nullopt);
  }
  ASSERT_TRUE(soon([&] { return started->gave_up().has_value(); }));
  EXPECT_EQ(started->gave_up()->code, ExitCode::kRequeue);
  EXPECT_TRUE(contains(started->gave_up()->reason, "rank 1"));
  EXPECT_TRUE(contains(generator.failure(), "rank 1")) << generator.failure();
  EXPECT_EQ(generator.submit(greedy_request({1}, 1), std::make_shared<TextListener>()).refused,
            Refused::kDead);
  EXPECT_TRUE(children().empty());
}

// Nothing is asked of it: it is started again all the same.
TEST(ProcessModelTest, ARankThatIsLostWithoutWorkIsStartedAgain) {
  StartOptions options = process_options(model_folders().front(), 1, 2);
  options.restarts = 2;
  const auto started = start_model(options);
  const std::vector<pid_t> before = children();
  ::kill(before.back(), SIGKILL);
  EXPECT_TRUE(soon([&] { return children().size() == 2 && children() != before; }));
  EXPECT_TRUE(soon([&] { return answers(started->generator()); }));
}

TEST(ProcessModelTest, AReplicaOutlivesTheOther) {
  const NothingIsLeft check;
  StartOptions options = process_options(model_folders().front(), 1, 1);
  options.replicas = 2;
  const auto started = start_model(options);
  ASSERT_EQ(children().size(), 2U);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(answers(started->generator()));
  ::kill(children().front(), SIGKILL);
  EXPECT_TRUE(soon([&] { return children().size() == 1; }));
  EXPECT_TRUE(soon([&] { return answers(started->generator()); }));
  EXPECT_EQ(started->gave_up(), std::nullopt);
  EXPECT_EQ(started->generator().failure(), "");
  ::kill(children().front(), SIGKILL);
  ASSERT_TRUE(soon([&] { return started->gave_up().has_value(); }));
  EXPECT_EQ(started->gave_up()->code, ExitCode::kRequeue);
}

// What ranks cannot cure ends the start, with its own exit code; nothing is left.
TEST(ProcessModelTest, ADamagedCheckpointIsNeverReady) {
  const NothingIsLeft check;
  const TestFolder folder;
  const std::string run = train_run(folder, "tp=1");
  const std::string path = run + "/model.safetensors";
  std::string bytes = tessera::testing::read_file(path);
  bytes.resize(bytes.size() / 2);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  StartOptions options = process_options(run, 2, 1);
  options.restarts = 3;
  EXPECT_THROW((void)start_model(options), Error);
  EXPECT_TRUE(children().empty());
}

TEST(ProcessModelTest, NobodyNeedWaitForItToBeReady) {
  const NothingIsLeft check;
  StartOptions options = process_options(model_folders().front(), 1, 1);
  options.environment["TESSERA_FAULT"] = "serve.load:act=spin";
  const auto begun = Clock::now();
  options.cancelled = [&] { return Clock::now() - begun > milliseconds(300); };
  EXPECT_THROW((void)start_model(options), Error);
  EXPECT_TRUE(children().empty());
}

}  // namespace
}  // namespace tessera::serve

// `tessera serve` as a program: what it says, what it answers, how it is told to end.
#include <csignal>
#include <thread>

#include "serving/served_command.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

class ServeAnswersTest : public ServedCommandTest {};

json long_request(int tokens, bool stream) {
  return {{"prompt", {7, 8, 9}},      {"max_tokens", tokens}, {"temperature", 0},
          {"return_token_ids", true}, {"ignore_eos", true},   {"stream", stream}};
}

TEST_F(ServeAnswersTest, GreedyTextsAreThoseOfTransformers) {
  const std::string models = std::string(TESSERA_SOURCE_DIR) + "/tests/data/greedy";
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    SCOPED_TRACE(entry.path().string());
    const json golden = json::parse(read_file((entry.path() / "greedy.json").string()));
    const std::vector<int32_t> prompt = golden["prompt"], whole = golden["greedy"];
    serve(entry.path().string() + " --dtype f64");
    std::vector<int32_t> text = prompt;
    const auto rest = static_cast<int>(whole.size() - prompt.size());
    for (const int32_t id : greedy(prompt, rest)) text.push_back(id);
    EXPECT_EQ(text, whole);
    server_->signal(SIGTERM);
    EXPECT_EQ(server_->finish().code, 0);
  }
}

TEST_F(ServeAnswersTest, EveryMeshGivesTheSameText) {
  const std::string model = model_of_source("llama-gqa") + " --dtype f64";
  serve(model);
  const std::vector<int32_t> prompt = {7, 8, 9, 30, 1};
  const std::vector<int32_t> wanted = greedy(prompt, 40);
  ASSERT_EQ(wanted.size(), 40);
  for (const char* mesh : {"--mesh tp=2,pp=2", "--mesh dp=2,tp=2", "--mesh pp=2 --threads",
                           "--restarts 1", "--page 32 --token-budget 8 --no-prefix-cache"}) {
    SCOPED_TRACE(mesh);
    serve(model + " " + mesh);
    EXPECT_EQ(greedy(prompt, 40), wanted);
  }
}

// JSON of a schema, with draws, penalties and log probabilities: the same, whoever computes it.
TEST_F(ServeAnswersTest, EveryMeshGivesTheSameJson) {
  folder_.write("run.toml",
                "[model]\nlayers=2\nhidden=32\nffn=48\nheads=4\nkv_heads=2\nvocab=256\n"
                "[train]\nseq_len=256\nmicro_batch=1\nglobal_batch=1\nsteps=1\n"
                "[data]\nsynth={seed=7, bytes=20000}\n");
  succeed("train run.toml -q --set logging.run_dir=run");
  const json schema = json::parse(
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":8},
          "age":{"type":"integer","minimum":0,"maximum":120}},"required":["name","age"]})");
  const json body = {
      {"prompt", "a"},
      {"max_tokens", 120},
      {"n", 2},
      {"seed", 3},
      {"presence_penalty", 0.5},
      {"logprobs", 2},
      {"response_format",
       {{"type", "json_schema"}, {"json_schema", {{"name", "one"}, {"schema", schema}}}}}};
  const std::string run = folder_.path("run") + " --dtype f64";
  json wanted;
  for (const char* mesh : {"", " --mesh tp=2,pp=2", " --mesh pp=2 --threads", " --mesh dp=2"}) {
    SCOPED_TRACE(mesh);
    serve(run + mesh);
    const http::TestResponse response = ask(body)->response();
    ASSERT_EQ(response.status, 200) << response.body;
    json choices = json::parse(response.body)["choices"];
    for (const json& choice : choices) {
      EXPECT_EQ(choice["finish_reason"], "stop");
      const json said = json::parse(choice["text"].get<std::string>(), nullptr, false);
      EXPECT_TRUE(said.is_object() && said["age"].is_number_integer()) << choice["text"];
    }
    if (wanted.is_null()) wanted = choices;
    for (size_t i = 0; i < choices.size(); ++i) EXPECT_EQ(choices[i]["text"], wanted[i]["text"]);
  }
}

TEST_F(ServeAnswersTest, SaysWhatItDoesAndWhere) {
  serve(model_of_source("llama-gqa") + " --name toy");
  EXPECT_NE(err().find("model   toy in f32: token ids alone"), std::string::npos) << err();
  EXPECT_NE(err().find("mesh    dp=1 pp=1 tp=1: 1 rank as a thread"), std::string::npos) << err();
  EXPECT_NE(err().find(" pages of 16 tokens"), std::string::npos) << err();
  EXPECT_EQ(out(), fmt::format("listening on http://127.0.0.1:{}\n", port_));
  const json models = json::parse(http::fetch(port_, "/v1/models").body);
  EXPECT_EQ(models["data"][0]["id"], "toy");
  EXPECT_TRUE(is_ready());
  EXPECT_EQ(http::fetch(port_, "/health/live").status, 200);
  EXPECT_NE(http::fetch(port_, "/").body.find("<!doctype html>"), std::string::npos);
  server_->signal(SIGINT);
  EXPECT_EQ(server_->finish().code, 0);
}

TEST_F(ServeAnswersTest, ThePlanAsJsonIsOneLine) {
  CommandOptions options;
  options.output = "json";
  Command server(
      folder_,
      words_of("serve " + model_of_source("llama-gqa") + " --port 0 --json --pages 40 --mesh tp=2"),
      options);
  const std::string path = folder_.path(".stdoutjson");
  ASSERT_TRUE(wait_until([&] { return read_file(path).ends_with("\n"); }));
  const json plan = json::parse(read_file(path));
  EXPECT_EQ(plan["kind"], "serving");
  EXPECT_EQ(plan["pages"], 40);
  EXPECT_EQ(plan["mesh"]["tp"], 2);
  EXPECT_EQ(plan["ranks"].size(), 2);
  // 2 layers x keys and values x 1 head of 2 x 6 numbers x 4 bytes x 16 tokens x 40 pages.
  EXPECT_EQ(plan["ranks"][0]["cache_bytes"], 2 * 2 * 6 * 4 * 16 * 40);
  EXPECT_TRUE(plan["url"].get<std::string>().starts_with("http://127.0.0.1:"));
  server.signal(SIGTERM);
  EXPECT_EQ(server.finish().code, 0);
}

TEST_F(ServeAnswersTest, AKeyIsWantedWhereOneIsGiven) {
  folder_.write("key", "0123456789abcdef0123\n");
  for (const bool by_file : {true, false}) {
    serve(model_of_source("llama-gqa") + (by_file ? " --api-key-file key" : ""),
          by_file ? std::vector<std::string>{}
                  : std::vector<std::string>{"TESSERA_API_KEY=0123456789abcdef0123"});
    EXPECT_EQ(http::fetch(port_, "/v1/models").status, 401);
    EXPECT_EQ(
        http::fetch(port_, "/v1/models", "Authorization: Bearer 0123456789abcdef0123\r\n").status,
        200);
    EXPECT_EQ(http::fetch(port_, "/health/live").status, 200);
    EXPECT_EQ(err().find("0123456789abcdef"), std::string::npos);
  }
}

TEST_F(ServeAnswersTest, ASignalLetsRunningAnswersEnd) {
  for (const char* mesh : {"", " --mesh tp=2"}) {
    SCOPED_TRACE(mesh);
    serve(long_model() + mesh + " --drain 120");  // a busy machine needs its time
    const int tokens = 500;
    std::vector<std::unique_ptr<AskedServer>> clients;
    for (int i = 0; i < 6; ++i) clients.push_back(ask(long_request(tokens, i < 4)));
    for (size_t i = 0; i < 4; ++i) ASSERT_TRUE(clients[i]->has_begun());
    server_->signal(SIGTERM);
    ASSERT_TRUE(wait_until([&] { return !is_ready(); }));
    // It takes nothing new; where it has ended already, nobody answers.
    const int status = ask(long_request(5, false))->response().status;
    EXPECT_TRUE(status == 503 || status == 0) << status;
    for (size_t i = 0; i < 6; ++i) {
      const http::TestResponse response = clients[i]->response();
      EXPECT_EQ(response.status, 200) << response.body;
      if (i < 4) {
        const StreamedIds streamed = ids_of_stream(response.body);
        EXPECT_EQ(streamed.ids.size(), tokens);
        EXPECT_EQ(streamed.reason, "length");
        EXPECT_TRUE(streamed.done);
      } else {
        EXPECT_EQ(json::parse(response.body)["usage"]["completion_tokens"], tokens);
      }
    }
    const CommandResult ended = server_->finish();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_NE(ended.err.find("SIGTERM: finishing"), std::string::npos) << ended.err;
  }
}

TEST_F(ServeAnswersTest, ClientsThatLeaveLeaveNothing) {
  serve(long_model() + " --mesh pp=2 --max-sequences 8");
  for (int i = 0; i < 40; ++i) {
    const auto leaves = ask(long_request(8000, i % 2 == 0));
    if (i % 4 == 0) leaves->has_begun();
  }
  const auto value = [&](const std::string& name) {
    const std::string text = http::fetch(port_, "/metrics").body;
    const size_t at = text.find("\ntessera_" + name + "{");
    return at == std::string::npos ? -1.0 : std::stod(text.substr(text.find(' ', at)));
  };
  for (const char* name : {"num_requests_running", "num_requests_waiting", "http_requests_open",
                           "kv_cache_usage_perc"}) {
    EXPECT_TRUE(wait_until([&] { return value(name) == 0; })) << name << value(name);
  }
  EXPECT_EQ(greedy({5, 6, 7}, 20).size(), 20);
}

TEST_F(ServeAnswersTest, WhatTheDrainTimeCutsOffIsToldSo) {
  serve(long_model() + " --drain 0.1");
  const auto stream = ask(long_request(8000, true));
  ASSERT_TRUE(stream->has_begun());
  const auto whole = ask(long_request(8000, false));
  server_->signal(SIGTERM);
  const StreamedIds streamed = ids_of_stream(stream->response().body);
  EXPECT_EQ(streamed.reason, "error: shutting_down");
  EXPECT_FALSE(streamed.done);
  EXPECT_EQ(whole->response().status, 503);
  const CommandResult ended = server_->finish();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("took longer than --drain 0.1"), std::string::npos) << ended.err;
}

TEST_F(ServeAnswersTest, ASecondSignalEndsAtOnce) {
  serve(long_model() + " --mesh tp=2 --drain 600");
  const auto stream = ask(long_request(8000, true));
  ASSERT_TRUE(stream->has_begun());
  server_->signal(SIGTERM);
  ASSERT_TRUE(wait_until([&] { return !is_ready(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // or it counts as the same signal
  const std::vector<pid_t> ranks = children_of(server_->pid());
  EXPECT_EQ(ranks.size(), 2);
  server_->signal(SIGTERM);
  EXPECT_EQ(server_->finish().code, 128 + SIGTERM);
  for (const pid_t rank : ranks) EXPECT_TRUE(wait_until([&] { return !is_running(rank); }));
}

TEST_F(ServeAnswersTest, APortThatIsTakenIsNamed) {
  serve(model_of_source("llama-gqa"));
  const CommandResult second =
      run(fmt::format("serve {} --port {}", model_of_source("llama-gqa"), port_));
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.err.find(std::to_string(port_)), std::string::npos) << second.err;
}

TEST_F(ServeAnswersTest, ModelsThatCannotBeServedSayWhy) {
  folder_.write("none/x", "");
  EXPECT_EQ(run("serve nowhere --port 0").code, 2);
  EXPECT_EQ(run("serve none --port 0").code, 2);
  const CommandResult small =
      run("serve " + model_of_source("llama-gqa") + " --port 0 --memory-gib 0.0001");
  EXPECT_EQ(small.code, 3) << small.err;
  const CommandResult mesh = run("serve " + model_of_source("llama-gqa") + " --port 0 --mesh tp=3");
  EXPECT_EQ(mesh.code, 2) << mesh.err;
  // A damaged file is never ready.
  const std::string model = long_model();
  std::string bytes = read_file(model + "/model.safetensors");
  folder_.write("long/model.safetensors", bytes.substr(0, bytes.size() / 2));
  const CommandResult damaged = run("serve " + model + " --port 0 --mesh tp=2");
  EXPECT_NE(damaged.code, 0);
  EXPECT_EQ(damaged.out, "");
  EXPECT_NE(damaged.err.find("model.safetensors"), std::string::npos) << damaged.err;
}

}  // namespace
}  // namespace tessera

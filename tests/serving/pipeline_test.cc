// The trace of a served pipeline: chunks of one long prompt are on all stages at once, and so are
// the groups of texts that are written.
#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "serving/served_command.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

// What a stage computed from when to when, in microseconds.
struct Slice {
  int stage = 0;
  std::string frame;
  double begin = 0, end = 0;
};

std::vector<Slice> slices_of(const json& trace, const std::string& category) {
  std::vector<Slice> slices;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] != category) continue;
    const std::string name = event["name"];
    const double begin = event["ts"], length = event["dur"];
    slices.push_back({event["pid"], name.substr(0, name.find(':')), begin, begin + length});
  }
  return slices;
}

// The most stages that compute at one moment, each a frame of its own.
size_t most_at_once(const std::vector<Slice>& slices) {
  size_t most = 0;
  for (const Slice& one : slices) {
    std::map<int, std::string> stages;
    std::set<std::string> frames;
    for (const Slice& other : slices) {
      const bool is_there = other.begin <= one.begin && one.begin < other.end;
      if (!is_there || !frames.insert(other.frame).second) continue;
      stages[other.stage] = other.frame;
    }
    most = std::max(most, stages.size());
  }
  return most;
}

// The most frames that are somewhere between the first stage and the last at one moment.
size_t most_under_way(const std::vector<Slice>& slices) {
  std::map<std::string, std::pair<double, double>> frames;
  for (const Slice& one : slices) {
    auto& [begin, end] = frames.try_emplace(one.frame, one.begin, one.end).first->second;
    begin = std::min(begin, one.begin);
    end = std::max(end, one.end);
  }
  size_t most = 0;
  for (const auto& [name, one] : frames) {
    const auto is_there = [at = one.first](const auto& other) {
      return other.second.first <= at && at < other.second.second;
    };
    most =
        std::max(most, static_cast<size_t>(std::count_if(frames.begin(), frames.end(), is_there)));
  }
  return most;
}

class ServePipelineTest : public ServedCommandTest {
 protected:
  // Weights at random, but of as many layers as there are stages, with work in each, and with room
  // for a long prompt.
  void make_model(int layers) {
    folder_.write("run.toml",
                  fmt::format("[model]\nlayers={}\nhidden=64\nffn=256\nheads=4\nvocab=256\n"
                              "[train]\nseq_len=32\nmicro_batch=1\nglobal_batch=1\nsteps=1\n"
                              "[data]\nsynth={{seed=7, bytes=20000}}\n",
                              layers));
    succeed("train run.toml -q --set logging.run_dir=run");
    succeed("export-hf run long");
    json config = json::parse(read_file(folder_.path("long/config.json")));
    config["max_position_embeddings"] = 4096;
    folder_.write("long/config.json", config.dump());
  }

  void write_texts(int clients) {
    std::vector<std::unique_ptr<AskedServer>> all;
    for (int i = 0; i < clients; ++i) {
      all.push_back(ask({{"prompt", {7, 8, i}}, {"max_tokens", 240}, {"ignore_eos", true}}));
    }
    for (const auto& one : all) EXPECT_EQ(one->response().status, 200);
  }

  // The server has written its trace once it has ended.
  json trace_of_server() {
    server_->signal(SIGTERM);
    EXPECT_EQ(server_->finish().code, 0);
    return json::parse(read_file(folder_.path("trace.json")));
  }
};

TEST_F(ServePipelineTest, ChunksOfOnePromptAndGroupsOfTextsAreOnAllStagesAtOnce) {
  make_model(4);
  for (const auto& [stages, more] : {std::pair{2, ""}, {4, ""}, {2, " --threads"}}) {
    SCOPED_TRACE(fmt::format("pp={}{}", stages, more));
    serve(
        fmt::format("{} --mesh pp={} --token-budget 256 --pages 300 --no-prefix-cache --trace {}{}",
                    folder_.path("long"), stages, folder_.path("trace.json"), more));
    const std::vector<int> prompt(3500, 5);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(ask({{"prompt", prompt}, {"max_tokens", 1}})->response().status, 200);
    }
    write_texts(4 * stages);
    const json trace = trace_of_server();
    // Nothing else was there while the prompts were: all their chunks are large.
    const std::vector<Slice> chunks = slices_of(trace, "prompt");
    const std::vector<Slice> texts = slices_of(trace, "answer");
    // Where four ranks and the server share two cores, somebody always waits for a core.
    const auto most = std::min<size_t>(static_cast<size_t>(stages), 3);
    EXPECT_GE(most_under_way(chunks), most) << "chunks of one prompt";
    EXPECT_GE(most_at_once(chunks), 2U) << "chunks of one prompt";
    // A step of so small a model is shorter than a message: each group is on its way at least.
    EXPECT_GE(most_under_way(texts), most) << "groups of texts";
    fmt::print("pp={}{}: chunks on {} stages at once, groups of texts on {}\n", stages, more,
               most_at_once(chunks), most_at_once(texts));
    // What a stage waits for the others is no work of it.
    std::map<int, double> waited;
    for (const Slice& wait : slices_of(trace, "wait")) waited[wait.stage] += wait.end - wait.begin;
    for (int stage = 1; stage < stages; ++stage) EXPECT_GT(waited[stage], 0) << stage;
  }
}

}  // namespace
}  // namespace tessera

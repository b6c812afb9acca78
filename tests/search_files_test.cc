// The run files that a search writes: every one is planned as it is, and small ones train a step on
// this machine, with the splits, uneven stages and recomputation that the search chose.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/testing/share.h"
#include "support/command.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests
using nlohmann::json;

class SearchFilesTest : public CommandTest {
 protected:
  SearchFilesTest() {
    folder_.write("dense.toml",
                  "[model]\nlayers = 7\nhidden = 64\nffn = 176\nheads = 4\nkv_heads = 2\n"
                  "vocab = 1024\n");
    folder_.write("experts.toml",
                  "[model]\nfamily = \"mixtral\"\nlayers = 4\nhidden = 64\nffn = 96\nheads = 4\n"
                  "kv_heads = 2\nvocab = 256\nexperts = 4\n");
  }

  // Four ranks that share a processor; `megabytes` of memory each.
  std::string cluster(int64_t megabytes) {
    const std::string name = fmt::format("cpu-{}mb.toml", megabytes);
    folder_.write("device-" + name, fmt::format("extends = \"cpu\"\nreserved_bytes = 0\n"
                                                "memory_bytes = {}e6\n",
                                                megabytes));
    folder_.write(name, fmt::format("device = \"device-{}\"\ndevices = 4\n[[levels]]\n"
                                    "name = \"memory\"\ndevices = 0\nbandwidth = 20e9\n"
                                    "latency_s = 5e-6\nefficiency = 0.8\n",
                                    name));
    return name;
  }

  // Searches and returns the run files, best first.
  std::vector<std::string> search(const std::string& line) {
    std::filesystem::remove_all(folder_.path("plans"));
    outcome_ = succeed("search --json --out plans " + line).json();
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path("plans"))) {
      files.push_back("plans/" + entry.path().filename().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  void train_a_step(const std::string& file) {
    succeed("train " + file + " --threads --set train.steps=1 --set data.synth.bytes=200000");
  }

  json outcome_;
};

TEST_F(SearchFilesTest, SmallPlansTrainAsTheyAre) {
  const std::string small = "--cluster " + cluster(4000) + " --seq-len 64 --global-batch 8 ";
  const std::vector<std::string> lines = {"--model dense.toml",
                                          "--model dense.toml --cp 2",
                                          "--model dense.toml --tp 2 --pp 2",
                                          "--model experts.toml --ep 2",
                                          "--model experts.toml --ep 4 --pp 1",
                                          "--model dense.toml --zero 3 --pp 1"};
  for (const std::string& line : share_of(lines, 3)) {
    const std::vector<std::string> files = search(small + line + " --top 6");
    ASSERT_FALSE(files.empty()) << line;
    for (const std::string& file : files) succeed("plan " + file);
    train_a_step(files.front());
    if (files.size() > 1) train_a_step(files.back());
  }
}

TEST_F(SearchFilesTest, UnevenStagesThatComputeAgainTrainAsTheyAre) {
  // Memory that equal stages without recomputation do not have.
  const int enough = tries_all() ? 3 : 1;
  int uneven = 0, mixed = 0;
  for (const int64_t megabytes : share_of(std::vector<int64_t>{74, 76, 78, 80, 84, 88}, 2)) {
    const std::vector<std::string> files =
        search("--cluster " + cluster(megabytes) +
               " --model dense.toml --pp 4 --micro-batch 2 --seq-len 256 --global-batch 32");
    for (const std::string& file : files) {
      const std::string text = read_file(folder_.path(file));
      const bool has_mixed = text.find('/') != std::string::npos;
      const bool has_uneven = text.find("stage_layers = [2, 2, 2, 1]") == std::string::npos;
      if ((!has_mixed || mixed >= enough) && (!has_uneven || uneven >= enough)) continue;
      mixed += has_mixed ? 1 : 0;
      uneven += has_uneven ? 1 : 0;
      succeed("plan " + file);
      train_a_step(file);
    }
  }
  EXPECT_GT(mixed, 0);
  EXPECT_GT(uneven, 0);
}

struct Request {
  const char* cluster;
  const char* rest;
};

TEST_F(SearchFilesTest, LargePlansFitAsTheyAre) {
  const std::vector<Request> requests = {
      {"a100-256", "--model llama-2-70b --global-batch 512 --seq-len 4096"},
      {"h100-64", "--model mixtral-8x7b --global-batch 512 --seq-len 4096 --cp 2"},
      {"h100-1024", "--model llama-3-405b --global-batch 64 --seq-len 131072 --cp 16"},
      {"pc-4x24-8", "--model llama-2-7b --global-batch 64 --seq-len 4096"},
      {"two-pcs", "--model llama-3.2-3b --global-batch 32 --seq-len 4096"}};
  for (const auto& [cluster, rest] : share_of(requests, 5)) {
    const std::string on = fmt::format(" --cluster {}", cluster);
    const std::vector<std::string> files = search(rest + on + " --top 4");
    ASSERT_FALSE(files.empty()) << rest;
    for (const std::string& file : files) {
      EXPECT_NE(succeed("plan " + file + on + " --check").out.find("step"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tessera

// The topics that look inside a run: program and placements.
#include "api/show/program.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "api/call.h"
#include "base/error.h"

namespace tessera {
namespace {

using nlohmann::json;

const json kRun = {
    {"model", "gpt2"}, {"cluster", "h100-8"}, {"pp", 2},        {"tp", 2},
    {"zero", 1},       {"global_batch", 8},   {"seq_len", 256}, {"set", {"model.layers=2"}}};

json with(json request, const json& more) {
  request.update(more);
  return request;
}

json ask(std::string_view method, const json& request) { return call(method, request, {}); }

std::string refusal(std::string_view method, const json& request) {
  try {
    ask(method, request);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ProgramTopicTest, EveryRankIsThatOfThePlan) {
  const json plan = ask("plan", kRun);
  for (int rank = 0; rank < 8; ++rank) {
    const json shown = ask("program", with(kRun, {{"rank", rank}}));
    const json& planned = plan.at("ranks").at(static_cast<size_t>(rank));
    EXPECT_EQ(shown.at("rank"), rank);
    EXPECT_EQ(shown.at("digest"), planned.at("digest"));
    EXPECT_EQ(shown.at("coords"), planned.at("coords"));
    EXPECT_EQ(shown.at("memory_bytes"), planned.at("memory_bytes"));
    EXPECT_EQ(shown.at("num_instructions"), planned.at("instructions"));
    EXPECT_EQ(shown.at("instructions").size(), planned.at("instructions"));
  }
}

TEST(ProgramTopicTest, TimesAreThoseOfTheSimulation) {
  const json shown = ask("program", kRun);
  EXPECT_EQ(shown.at("step_s"), ask("simulate", kRun).at("step_s"));
  double last = 0;
  std::map<std::string, double> free_at;
  const json& instructions = shown.at("instructions");
  for (const json& one : instructions) {
    EXPECT_LE(one.at("begin"), one.at("start"));
    EXPECT_LE(one.at("start"), one.at("end"));
    double& free = free_at[one.at("stream")];
    EXPECT_GE(one.at("begin").get<double>(), free);
    free = one.at("end");
    last = std::max(last, free);
    for (const json& by : one.at("waits")) {
      EXPECT_LE(instructions.at(by.get<size_t>()).at("end"), one.at("begin"));
    }
  }
  EXPECT_LE(last, shown.at("step_s"));
}

// Bytes of a map of ranges that something covers.
int64_t covered(const std::map<int64_t, int>& edges) {
  int64_t bytes = 0, from = 0;
  int depth = 0;
  for (const auto& [at, by] : edges) {
    if (depth > 0) bytes += at - from;
    depth += by;
    from = at;
  }
  return bytes;
}

TEST(ProgramTopicTest, TheMemoryMapAddsUpAtItsFullestMoment) {
  const json shown = ask("program", kRun);
  const double at = shown.at("fullest").at("time");
  std::map<std::string, std::map<int64_t, int>> arenas;
  for (const json& buffer : shown.at("buffers")) {
    if (!buffer.contains("lives")) continue;
    for (const json& life : buffer.at("lives")) {
      if (life.at(2).get<double>() > at || life.at(3).get<double>() <= at) continue;
      auto& edges = arenas[buffer.at("arena")];
      ++edges[buffer.at("offset")];
      --edges[buffer.at("offset").get<int64_t>() + buffer.at("bytes").get<int64_t>()];
    }
  }
  int64_t used = 0, whole = 0;
  for (const json& arena : shown.at("arenas")) {
    const std::string name = arena.at("name");
    const bool counted = name == "activations" || name == "communication";
    used += counted ? covered(arenas[name]) : arena.at("bytes").get<int64_t>();
    whole += arena.at("bytes").get<int64_t>();
    EXPECT_LE(arena.at("fullest_bytes"), arena.at("bytes"));
  }
  EXPECT_EQ(used, shown.at("fullest").at("bytes"));
  EXPECT_EQ(whole, shown.at("memory_bytes").at("total"));
}

TEST(ProgramTopicTest, BuffersLieInsideTheirArena) {
  const json shown = ask("program", kRun);
  std::map<std::string, int64_t> bytes;
  for (const json& arena : shown.at("arenas")) bytes[arena.at("name")] = arena.at("bytes");
  for (const json& buffer : shown.at("buffers")) {
    EXPECT_LE(buffer.at("offset").get<int64_t>() + buffer.at("bytes").get<int64_t>(),
              bytes.at(buffer.at("arena")))
        << buffer.at("name");
  }
}

TEST(ProgramTopicTest, WhatIsTooLargeIsRefused) {
  EXPECT_NE(refusal("program", with(kRun, {{"rank", 8}})).find("0 to 7"), std::string::npos);
  for (const int batch : {512, 65'536}) {
    const json request = {{"model", "gpt2"}, {"cluster", "h100-8"}, {"global_batch", batch}};
    EXPECT_NE(refusal("program", request).find("use fewer layers"), std::string::npos) << batch;
  }
}

const json kSplit = {
    {"model", "gpt2"},           {"cluster", "h100-4"},      {"tp", 2}, {"dp", 2}, {"seq_len", 256},
    {"sequence_parallel", true}, {"set", {"model.layers=2"}}};

TEST(PlacementsTopicTest, RanksOfASplitHoldAllOfItTogether) {
  const json shown = ask("placements", kSplit);
  ASSERT_EQ(shown.at("ranks"), (json{0, 1, 2, 3}));
  int split_weights = 0;
  for (const json& tensor : shown.at("tensors")) {
    const int64_t rows = tensor.at("rows"), cols = tensor.at("cols");
    int64_t held = 0;
    for (const size_t rank : {size_t{0}, size_t{1}}) {
      for (const json& rect : tensor.at("slices").at(rank)) {
        held += (rect.at(1).get<int64_t>() - rect.at(0).get<int64_t>()) *
                (rect.at(3).get<int64_t>() - rect.at(2).get<int64_t>());
      }
    }
    if (tensor.at("role") != "weight") continue;
    const json& on_tp = tensor.at("parts").back();
    ASSERT_EQ(on_tp.at("axis"), "tp");
    const bool is_split = on_tp.at("kind") == "split";
    split_weights += is_split ? 1 : 0;
    EXPECT_EQ(held, (is_split ? 1 : 2) * rows * cols) << tensor.at("name");
  }
  EXPECT_GE(split_weights, 4);
}

TEST(PlacementsTopicTest, CastsOfABlockAreThoseOfSequenceParallelism) {
  const auto collectives = [](const json& shown) {
    std::map<std::string, int> counts;
    for (const json& one : shown.at("blocks")) {
      if (one.contains("cast")) ++counts[one.at("cast").at("collective")];
    }
    return counts;
  };
  const auto with_sp = collectives(ask("placements", kSplit));
  EXPECT_EQ(with_sp.at("all_gather"), 2);
  EXPECT_EQ(with_sp.at("reduce_scatter"), 2);
  const auto without = collectives(ask("placements", with(kSplit, {{"sequence_parallel", false}})));
  EXPECT_EQ(without.at("all_reduce"), 2);
  EXPECT_FALSE(without.contains("reduce_scatter"));
}

}  // namespace
}  // namespace tessera

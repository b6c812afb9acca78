// The topics about machines and meshes: about, grid, topology.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/call.h"
#include "base/error.h"
#include "compile/model/parameters.h"
#include "graph/mesh.h"

namespace tessera {
namespace {

using nlohmann::json;

json ask(std::string_view method, const json& request) { return call(method, request, {}); }

std::string refusal(std::string_view method, const json& request) {
  try {
    ask(method, request);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(AboutTest, CountsWhatPresetsList) {
  const json about = ask("about", json::object());
  EXPECT_EQ(about.at("schema_version"), 1);
  EXPECT_EQ(about.at("kind"), "about");
  EXPECT_FALSE(about.at("version").get<std::string>().empty());
  const json& catalogue = about.at("catalogue");
  for (const char* kind : {"models", "devices", "clusters", "engines", "recipes"}) {
    EXPECT_EQ(catalogue.at(kind), ask("presets", {{"kind", kind}}).at(kind).size()) << kind;
  }
  EXPECT_EQ(catalogue.at("hash").get<std::string>().size(), 16U);
}

TEST(GridTest, TheUsualOrderIsTheMeshOfARun) {
  const json grid = ask(
      "grid", {{"mesh", {{"tp", 4}, {"cp", 2}, {"fsdp", 2}, {"dp", 3}, {"pp", 2}}}, {"rank", 71}});
  ParallelSpec parallel;
  parallel.tp = 4;
  parallel.cp = 2;
  parallel.fsdp = 2;
  parallel.dp = 3;
  parallel.pp = 2;
  const Mesh mesh = mesh_of(parallel);
  ASSERT_EQ(grid.at("world"), mesh.world());
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    EXPECT_EQ(grid.at("coords").at("tp").at(at), mesh.coord(rank, Axis::kTp));
    EXPECT_EQ(grid.at("coords").at("cp").at(at), mesh.coord(rank, Axis::kCp));
    EXPECT_EQ(grid.at("coords").at("dp").at(at), mesh.coord(rank, Axis::kDp));
    EXPECT_EQ(grid.at("coords").at("pp").at(at), mesh.coord(rank, Axis::kPp));
    EXPECT_EQ(grid.at("coords").at("fsdp").at(at), mesh.position(rank, fsdp_axes()));
  }
  const json& info = grid.at("rank_info");
  EXPECT_EQ(info.at("peers").at("tp").get<std::vector<int>>(), mesh.peers(71, Axis::kTp));
  EXPECT_EQ(info.at("peers").at("dp").get<std::vector<int>>(), mesh.peers(71, Axis::kDp));
  EXPECT_EQ(info.at("data_shard"), mesh.position(71, sample_axes()));
}

TEST(GridTest, LlamaOn24576RanksHasItsLayersAndLinks) {
  const json grid = ask("grid", {{"tp", 8},
                                 {"pp", 16},
                                 {"dp", 192},
                                 {"cluster", "llama3-24k"},
                                 {"model", "llama-3-405b"},
                                 {"rank", 24575}});
  EXPECT_EQ(grid.at("world"), 24576);
  EXPECT_EQ(grid.at("nodes"), 3072);
  const json& info = grid.at("rank_info");
  EXPECT_EQ(info.at("layers").at(1), 126);
  EXPECT_EQ(info.at("link").at("tp"), "nvlink");
  EXPECT_EQ(info.at("link").at("pp"), "aggregation");
  EXPECT_EQ(grid.at("warnings"), json::array());
}

TEST(GridTest, TensorParallelAcrossNodesIsWarnedOf) {
  const json wide = ask("grid", {{"tp", 16}, {"dp", 4}, {"cluster", "h100-64"}});
  ASSERT_EQ(wide.at("warnings").size(), 1U);
  EXPECT_TRUE(wide.at("warnings").at(0).get<std::string>().starts_with("tp crosses nodes"));
  const json apart =
      ask("grid", {{"tp", 8}, {"dp", 8}, {"cluster", "h100-64"}, {"order", "dp-tp-pp"}});
  EXPECT_EQ(apart.at("warnings").size(), 1U);
  EXPECT_EQ(ask("grid", {{"tp", 8}, {"dp", 8}, {"cluster", "h100-64"}}).at("warnings").size(), 0U);
}

TEST(GridTest, ExpertsTakeNeighbouringRanks) {
  const json grid = ask("grid", {{"tp", 2}, {"dp", 8}, {"ep", 8}, {"rank", 9}});
  EXPECT_EQ(grid.at("rank_info").at("peers").at("ep"), (json{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(grid.at("rank_info").at("coords").at("ep"), 1);
}

TEST(GridTest, WhatCannotBeIsRefused) {
  EXPECT_NE(refusal("grid", {{"tp", 8}, {"dp", 8192}}).find("at most 32768"), std::string::npos);
  EXPECT_NE(refusal("grid", {{"tp", 8}, {"rank", 8}}).find("0 to 7"), std::string::npos);
  EXPECT_NE(refusal("grid", {{"tp", 8}, {"ep", 3}}).find("does not divide"), std::string::npos);
  EXPECT_NE(refusal("grid", {{"order", "tp-tp"}}).find("once"), std::string::npos);
  EXPECT_NE(refusal("grid", {{"mesh", {{"ttp", 8}}}}).find("'tp'"), std::string::npos);
  EXPECT_NE(refusal("grid", {{"dp", 64}, {"cluster", "h100-8"}}).find("8 devices"),
            std::string::npos);
}

TEST(TopologyTest, ZoomsFromADeviceToTheCluster) {
  const json all = ask("topology", {{"cluster", "llama3-24k"}});
  std::vector<std::string> names;
  std::vector<int64_t> devices;
  for (const json& level : all.at("levels")) {
    names.push_back(level.at("name"));
    devices.push_back(level.at("devices"));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"device", "node", "rack", "pod", "cluster"}));
  EXPECT_EQ(devices, (std::vector<int64_t>{1, 8, 16, 3072, 24576}));
  const json& node = all.at("levels").at(1);
  EXPECT_EQ(node.at("bandwidth_both_bytes_s"), 900e9);
  EXPECT_EQ(all.at("levels").at(4).at("gbit_s"), 400);
  // 1:7 between pods.
  EXPECT_DOUBLE_EQ(all.at("bisection_bytes_s"), 12288 * 50e9 / 7);
  EXPECT_EQ(all.at("device").at("year").at("value"), 2022);
  EXPECT_EQ(all.at("device").at("tensor_cores").at("value"), 528);
}

TEST(TopologyTest, ATorusHasItsSidesAndRailsAreThoseOfTheCatalogue) {
  const json pod = ask("topology", {{"cluster", "tpu-v4"}});
  EXPECT_EQ(pod.at("torus"), (json{16, 16, 16}));
  // 2 x 16 x 16 links of 50 GB/s cross the middle.
  EXPECT_DOUBLE_EQ(pod.at("bisection_bytes_s"), 512 * 50e9);
  EXPECT_FALSE(ask("topology", {{"cluster", "tpu-v4-64"}}).contains("torus"));
  EXPECT_EQ(ask("topology", {{"cluster", "h100-64"}}).at("rails").at("value"), 8);
}

TEST(TopologyTest, TrafficIsThatOfThePlan) {
  const json request = {
      {"model", "llama-3-70b"}, {"cluster", "h100-64"}, {"tp", 8}, {"pp", 2}, {"zero", 1}};
  const json plan = ask("plan", request);
  const json shown = ask("topology", request);
  ASSERT_FALSE(shown.at("traffic").empty());
  for (const json& one : shown.at("traffic")) {
    EXPECT_EQ(one.at("exposed_s"), plan.at("time").at("exposed_s").at(one.at("axis")));
  }
}

TEST(TopologyTest, WithoutAClusterTheFamiliesAreListed) {
  EXPECT_EQ(ask("topology", json::object()).at("families").size(),
            ask("presets", {{"kind", "clusters"}}).at("clusters").size());
}

TEST(PlanWhyTest, NamesTheHeaviestPartAndWhatTheStepWaitsFor) {
  const json plan =
      ask("plan",
          {{"model", "llama-3-70b"}, {"cluster", "h100-64"}, {"tp", 8}, {"pp", 2}, {"zero", 1}});
  std::map<std::string, std::string> why;
  for (const json& one : plan.at("why")) why[one.at("title")] = one.at("text");
  EXPECT_NE(why.at("memory").find("activations take most of it"), std::string::npos);
  EXPECT_NE(why.at("bubble").find("2 stages and 8 micro-batches"), std::string::npos);
  EXPECT_NE(why.at("exposed dp").find("infiniband"), std::string::npos);
  EXPECT_TRUE(why.contains("exposed tp"));
  EXPECT_TRUE(why.at("fit").starts_with("it fits"));
}

}  // namespace
}  // namespace tessera

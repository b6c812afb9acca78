#include "cost/step/collective_time.h"

#include <gtest/gtest.h>

#include "cost/hardware/catalogue.h"

namespace tessera {
namespace {

// Two nodes of four, 100 bytes/s inside and 10 outside, no latency, all of the bandwidth.
Cluster plain(int64_t devices) {
  Cluster cluster;
  cluster.device = find_device("a100-80");
  cluster.device.launch_s.value = 0;
  cluster.devices = devices;
  for (const auto& [joined, rate] : {std::pair<int64_t, double>{4, 100}, {0, 10}}) {
    LinkLevel level;
    level.devices = joined;
    level.bandwidth.value = rate;
    level.efficiency.value = level.oversubscription.value = 1;
    cluster.levels.push_back(level);
  }
  return cluster;
}

TEST(CollectiveTimeTest, RingsOfOneNode) {
  const Cluster cluster = plain(8);
  EXPECT_DOUBLE_EQ(all_reduce_s(cluster, {4, 1}, 400), 2 * 0.75 * 400 / 100);
  EXPECT_DOUBLE_EQ(all_gather_s(cluster, {4, 1}, 400), 0.75 * 400 / 100);
  EXPECT_DOUBLE_EQ(all_to_all_s(cluster, {4, 1}, 400), 0.75 * 400 / 100);
  EXPECT_EQ(all_reduce_s(cluster, {1, 1}, 400), 0);
}

TEST(CollectiveTimeTest, ARingOverNodesHasTheAdaptersOfItsRanks) {
  const Cluster cluster = plain(8);
  // All eight: four adapters leave a node together. One of each node: its own adapter. Two groups
  // in a node get in each other's way.
  EXPECT_DOUBLE_EQ(all_gather_s(cluster, {8, 1}, 800), 7.0 / 8 * 800 / 40);
  EXPECT_DOUBLE_EQ(all_gather_s(cluster, {2, 4}, 800), 0.5 * 800 / 10);
  EXPECT_DOUBLE_EQ(all_gather_s(cluster, {4, 2}, 800), 0.75 * 800 / 10);
}

TEST(CollectiveTimeTest, BetweenTwoNodesATreeCarriesTheBytesOnce) {
  EXPECT_DOUBLE_EQ(all_reduce_s(plain(8), {8, 1}, 800), 800.0 / 40);
  EXPECT_DOUBLE_EQ(all_reduce_s(plain(16), {16, 1}, 800), 2.0 * 15 / 16 * 800 / 40);
}

TEST(CollectiveTimeTest, WhatTravelsOnceBetweenNodesCostsLess) {
  const Cluster cluster = plain(8);
  EXPECT_DOUBLE_EQ(all_to_all_s(cluster, {8, 1}, 800), 0.5 * 800 / 10);
  EXPECT_DOUBLE_EQ(all_to_all_s(cluster, {8, 1}, 800, 0.5), 0.25 * 800 / 10);
  EXPECT_DOUBLE_EQ(all_to_all_s(cluster, {4, 1}, 800, 0.5), 0.75 * 800 / 100);
}

TEST(CollectiveTimeTest, EndsOfAPipelineMeet) {
  EXPECT_GT(all_reduce_s(plain(8), {2, 6}, 800), 0);
  EXPECT_DOUBLE_EQ(all_reduce_s(plain(8), {2, 6}, 800), 800.0 / 10);
}

TEST(CollectiveTimeTest, LatencyCountsTheHops) {
  Cluster cluster = plain(8);
  cluster.levels[0].latency_s.value = 1;
  cluster.levels[1].latency_s.value = 10;
  // Six hops inside nodes, one between them.
  EXPECT_DOUBLE_EQ(links_of(cluster, {8, 1}).round_s, 6 * 1 + 1 * 10);
  EXPECT_DOUBLE_EQ(send_time(cluster, 0, 1, 100).wire_s, 1);
  EXPECT_DOUBLE_EQ(send_time(cluster, 3, 4, 100).wire_s, 10);
}

TEST(CollectiveTimeTest, ATreeIsForManyRanksAndFewBytes) {
  const Cluster cluster = find_cluster("a100-4096");
  const RankGroup all{4096, 1};
  const double ring_steps = 2.0 * 4095 * cluster.levels[0].latency_s.value;
  EXPECT_LT(all_reduce_s(cluster, all, 1000), ring_steps / 10);
}

TEST(CollectiveTimeTest, SwitchesThatAddSendOnce) {
  Cluster cluster = plain(8);
  cluster.levels[0].in_network_sums = true;
  EXPECT_DOUBLE_EQ(all_reduce_s(cluster, {4, 1}, 400), 400.0 / 100);
  EXPECT_DOUBLE_EQ(all_reduce_s(cluster, {8, 1}, 400), 400.0 / 40);  // beyond it, by a tree
}

TEST(CollectiveTimeTest, ABusIsDividedAmongAllWhoUseIt) {
  Cluster cluster = plain(8);
  cluster.levels[0].shape = LinkShape::kShared;
  EXPECT_DOUBLE_EQ(all_gather_s(cluster, {4, 1}, 400), 0.75 * 400 / (100.0 / 4));
}

TEST(CollectiveTimeTest, OversubscriptionDividesTheRate) {
  const Cluster pods = find_cluster("llama3-24k");
  const RankGroup across{8, 3072}, inside{8, 8};
  EXPECT_NEAR(all_gather_s(pods, across, 1e9) / all_gather_s(pods, inside, 1e9), 7, 0.1);
}

}  // namespace
}  // namespace tessera

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/call.h"
#include "base/error.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

Json schedule_of(const nlohmann::json& request) { return call("schedule", request, {}); }

struct KnownBubble {
  std::string schedule;
  int ranks, micro_batches;
  double percent;  // to one digit, as the literature prints it
};

TEST(ShowScheduleTest, BubblesAreThoseOfTheLiterature) {
  const std::vector<KnownBubble> known = {
      {"1f1b", 4, 4, 42.9},  {"1f1b", 4, 8, 27.3},        {"1f1b", 4, 16, 15.8},
      {"1f1b", 4, 32, 8.6},  {"1f1b", 16, 8, 65.2},       {"1f1b", 16, 64, 19.0},
      {"gpipe", 4, 8, 27.3}, {"interleaved", 4, 8, 15.8}, {"zb-h1", 4, 8, 11.1},
      {"naive", 4, 8, 75.0}, {"1f1b", 64, 1, 98.4},       {"naive", 1, 8, 0},
  };
  for (const KnownBubble& one : known) {
    const Json json = schedule_of(
        {{"schedule", one.schedule}, {"ranks", one.ranks}, {"micro_batches", one.micro_batches}});
    EXPECT_NEAR(100 * json.at("bubble").get<double>(), one.percent, 0.05) << one.schedule;
    EXPECT_NEAR(json.at("bubble_formula").at("value").get<double>(),
                json.at("bubble").get<double>(), 1e-12)
        << one.schedule << " " << one.ranks << " " << one.micro_batches;
  }
}

std::vector<int> of_ranks(const Json& json, const std::string& key) {
  std::vector<int> values;
  for (const Json& row : json.at("rank_rows")) values.push_back(row.at(key).get<int>());
  return values;
}

TEST(ShowScheduleTest, CountsMicroBatchesInFlightAndCopiesOfWeights) {
  const Json gpipe = schedule_of({{"schedule", "gpipe"}, {"micro_batches", 7}});
  EXPECT_EQ(of_ranks(gpipe, "peak_live"), (std::vector{7, 7, 7, 7}));
  EXPECT_EQ(of_ranks(gpipe, "weight_versions"), (std::vector{1, 1, 1, 1}));
  EXPECT_EQ(of_ranks(schedule_of({{"micro_batches", 16}}), "peak_live"), (std::vector{4, 3, 2, 1}));
  EXPECT_EQ(of_ranks(schedule_of({{"micro_batches", 2}}), "peak_live"), (std::vector{2, 2, 2, 1}));
  EXPECT_EQ(of_ranks(schedule_of({{"schedule", "pipedream"}}), "weight_versions"),
            (std::vector{4, 3, 2, 1}));
  EXPECT_EQ(of_ranks(schedule_of({{"schedule", "pipedream-2bw"}}), "weight_versions"),
            (std::vector{2, 2, 2, 2}));
}

TEST(ShowScheduleTest, SaysWhichVersionOfTheWeightsAMicroBatchReads) {
  EXPECT_FALSE(schedule_of({{"schedule", "1f1b"}}).contains("versions"));
  // PipeDream: the first of four stages has made no update when micro-batches 0 to 3 come by; the
  // last one updates after each.
  const Json pipedream = schedule_of({{"schedule", "pipedream"}, {"micro_batches", 6}});
  EXPECT_EQ(pipedream.at("versions").at(0), Json::parse("[[0,1],[0,2],[0,3],[0,4],[1,5],[2,6]]"));
  EXPECT_EQ(pipedream.at("versions").at(3), Json::parse("[[0,1],[1,2],[2,3],[3,4],[4,5],[5,6]]"));
}

TEST(ShowScheduleTest, TheLiveCurvePeaksAtThePeakAndEndsAtNothing) {
  for (const std::string name : {"gpipe", "1f1b", "interleaved", "zb-h2", "zb-v"}) {
    const Json json = schedule_of({{"schedule", name}});
    for (const Json& row : json.at("rank_rows")) {
      int most = 0;
      double before = -1;
      for (const Json& point : row.at("live")) {
        EXPECT_GT(point[0].get<double>(), before);
        before = point[0].get<double>();
        most = std::max(most, point[1].get<int>());
      }
      EXPECT_EQ(most, row.at("peak_live").get<int>()) << name;
      EXPECT_EQ(row.at("live").back()[1], 0) << name;
    }
  }
}

// Every pass of every schedule, with uneven stages and messages that take time.
TEST(ShowScheduleTest, NothingBeginsBeforeWhatItWaitsForHasArrived) {
  const Json all = schedule_of(nlohmann::json::object());
  ASSERT_GE(all.at("known").size(), 10U);
  for (const Json& known : all.at("known")) {
    nlohmann::json request = {{"schedule", known.at("name")}, {"ranks", 4}, {"p2p", 0.25}};
    const int stages = schedule_of(request).at("stages").get<int>();
    std::vector<double> costs(static_cast<size_t>(stages), 1);
    costs.back() = 3;
    request["stage_costs"] = costs;
    const Json json = schedule_of(request);
    EXPECT_FALSE(json.contains("bubble_formula")) << known;
    EXPECT_FALSE(json.at("needs").empty());
    for (const Json& pair : json.at("needs")) {
      const Json& waits = json.at("ops")[pair[0].get<size_t>()];
      const Json& made = json.at("ops")[pair[1].get<size_t>()];
      EXPECT_NE(waits[0], made[0]);
      EXPECT_EQ(waits[2], made[2]) << "of one micro-batch";
      EXPECT_EQ(std::abs(waits[1].get<int>() - made[1].get<int>()), 1);
      EXPECT_GE(waits[4].get<double>(), made[5].get<double>() + 0.25);
    }
  }
}

// The last stage takes twice as long: it is what the others wait for.
TEST(ShowScheduleTest, AnUnevenStageSetsThePace) {
  const Json even = schedule_of({{"ranks", 2}, {"micro_batches", 100}});
  const Json uneven = schedule_of({{"ranks", 2}, {"micro_batches", 100}, {"stage_costs", {1, 2}}});
  EXPECT_EQ(even.at("makespan"), 303.0);
  EXPECT_EQ(uneven.at("makespan"), 603.0);
  EXPECT_GT(uneven.at("bubble").get<double>(), 0.24);
}

std::string refused(const nlohmann::json& request) {
  try {
    static_cast<void>(schedule_of(request));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ShowScheduleTest, RefusesWhatCannotBeShown) {
  EXPECT_EQ(refused({{"ranks", 65}}),
            "schedule: ranks is 65: expected a whole number from 1 to 64");
  EXPECT_EQ(refused({{"micro_batchs", 8}}),
            "schedule: unknown key \"micro_batchs\"; did you mean 'micro_batches'?");
  EXPECT_EQ(refused({{"stage_costs", {1, 2}}}),
            "schedule: stage_costs is [1.0,2.0]: expected 4 numbers, one for each stage");
  EXPECT_EQ(refused({{"virtual_stages", 2}}),
            "schedule: virtual_stages is 2: expected 1 for 1f1b; only interleaved takes others");
  EXPECT_EQ(refused({{"schedule", "interleaved"},
                     {"ranks", 64},
                     {"micro_batches", 512},
                     {"virtual_stages", 4}}),
            "schedule: 256 stages of 512 micro-batches are up to 393,216 passes, but at most "
            "200,000 are shown; lower ranks, virtual_stages or micro_batches");
  EXPECT_NE(refused({{"schedule", "1f1"}}).find("did you mean '1f1b'?"), std::string::npos);
  EXPECT_NE(refused({{"forward", 0}, {"backward", 0}}), "");
}

}  // namespace
}  // namespace tessera

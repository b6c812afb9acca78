#include "train/report/comm_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using nlohmann::ordered_json;

TEST(CommReportTest, ExposedIsPerStepSinceTheLastReading) {
  const std::vector<CommTime> before = {{"dp", "all_reduce", 9, 0.5}};
  const std::vector<CommTime> now = {{"dp", "all_reduce", 9, 0.75}, {"tp", "all_gather", 1, 0.5}};
  EXPECT_EQ(exposed_ms(before, now, 2),
            (ordered_json{{"dp all_reduce", 125.0}, {"tp all_gather", 250.0}}));
  EXPECT_EQ(exposed_ms({}, now, 1).at("dp all_reduce"), 750.0);
}

TEST(CommReportTest, MergesTheRanksThatTookPart) {
  const ordered_json first =
      comm_times_json(std::vector<CommTime>{{"dp", "all_reduce", 2, 1}, {"tp", "shift", 4, 0}}, 2);
  const ordered_json second = comm_times_json(std::vector<CommTime>{{"dp", "all_reduce", 4, 3}}, 2);
  const ordered_json merged = merge_comm_times({first, second, ordered_json::array()});
  ASSERT_EQ(merged.size(), 2U);
  EXPECT_EQ(merged[0], (ordered_json{{"group", "dp"},
                                     {"op", "all_reduce"},
                                     {"busy_ms", 1500.0},
                                     {"exposed_ms", 1000.0},
                                     {"exposed_ms_largest", 1500.0}}));
  EXPECT_EQ(merged[1].at("busy_ms"), 2000.0);
}

TEST(CommReportTest, OneRankHasNoTable) {
  EXPECT_EQ(comm_time_table(merge_comm_times({ordered_json::array()})), "");
  const ordered_json one =
      merge_comm_times({comm_times_json(std::vector<CommTime>{{"dp", "all_reduce", 2, 1}}, 1)});
  EXPECT_NE(comm_time_table(one).find("dp all_reduce"), std::string::npos);
}

}  // namespace
}  // namespace tessera

// The pictures of docs/pipeline.md are what the tool draws. After a change that is meant:
//   TESSERA_UPDATE_GOLDEN=1 sim_test --gtest_filter='Pictures*'
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "sim/schedule_svg.h"
#include "spec/pipeline.h"

namespace tessera {
namespace {

TEST(PicturesTest, OfTheDocsAreWhatTheToolDraws) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.asynchronous) continue;  // drawn like 1f1b
    const std::string path =
        fmt::format("{}/docs/pictures/schedule-{}.svg", TESSERA_SOURCE_DIR, kind.name);
    const std::string svg = schedule_svg(simulate_schedule(make_schedule(kind.name, 4, 0, 8)));
    if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path, std::ios::binary) << svg;
      continue;
    }
    std::ifstream in(path, std::ios::binary);
    ASSERT_TRUE(in.is_open()) << path << " is missing: run with TESSERA_UPDATE_GOLDEN=1";
    std::stringstream golden;
    golden << in.rdbuf();
    EXPECT_TRUE(golden.str() == svg) << path << " is not what is drawn now";
  }
}

}  // namespace
}  // namespace tessera

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/call.h"
#include "base/error.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

Json product_of(const nlohmann::json& request) { return call("tp_matmul", request, {}); }

TEST(ShowTpMatmulTest, EverySplitGivesTheProductOfOneRank) {
  for (const std::string split : {"column", "row", "pair", "heads"}) {
    for (const int ranks : {1, 2, 4, 8}) {
      const Json json = product_of({{"split", split}, {"ranks", ranks}, {"n", 16}, {"k", 8}});
      EXPECT_TRUE(json.at("equal").get<bool>()) << split << ranks;
      EXPECT_EQ(json.at("shards").size(), static_cast<size_t>(ranks));
    }
  }
}

struct Sums {
  std::string split;
  size_t forward, backward;
};

TEST(ShowTpMatmulTest, PlacementsSayWhichSumsAreNeeded) {
  for (const Sums& sums :
       {Sums{"column", 0, 1}, Sums{"row", 1, 0}, Sums{"pair", 1, 1}, Sums{"heads", 1, 1}}) {
    const Json json = product_of({{"split", sums.split}, {"ranks", 4}});
    EXPECT_EQ(json.at("collectives_forward"), sums.forward) << sums.split;
    EXPECT_EQ(json.at("collectives_backward"), sums.backward) << sums.split;
    EXPECT_EQ(json.at("forward").size(), sums.forward);
    for (const Json& cast : json.at("forward")) {
      EXPECT_EQ(cast.at("name"), "all_reduce");
      EXPECT_EQ(cast.at("example").at("bytes"), 32 << 20);
      EXPECT_EQ(cast.at("example").at("text"), "1 x 4,096 x 4,096 x 2 bytes = 32.0 MiB");
    }
  }
}

TEST(ShowTpMatmulTest, ColumnsStandBesideEachOtherAndRowsAddUp) {
  const Json column = product_of({{"split", "column"}, {"ranks", 2}});
  const Json row = product_of({{"split", "row"}, {"ranks", 2}});
  EXPECT_EQ(column.at("shards")[1].at("b").at("cols"), Json({4, 8}));
  EXPECT_EQ(column.at("shards")[1].at("b").at("rows"), Json({0, 8}));
  EXPECT_EQ(row.at("shards")[1].at("b").at("rows"), Json({4, 8}));
  EXPECT_EQ(row.at("shards")[1].at("a").at("cols"), Json({4, 8}));
  EXPECT_FALSE(column.at("shards")[0].at("partial").get<bool>());
  EXPECT_TRUE(row.at("shards")[0].at("partial").get<bool>());
  EXPECT_EQ(column.at("c"), row.at("c"));
  for (size_t r = 0; r < 4; ++r) {
    for (size_t c = 0; c < 8; ++c) {
      const double whole = column.at("c")[r][c].get<double>();
      EXPECT_EQ(column.at("shards")[c / 4].at("result")[r][c % 4].get<double>(), whole);
      EXPECT_EQ(row.at("shards")[0].at("result")[r][c].get<double>() +
                    row.at("shards")[1].at("result")[r][c].get<double>(),
                whole);
      EXPECT_EQ(whole, static_cast<int>(whole)) << "small whole numbers";
    }
  }
}

TEST(ShowTpMatmulTest, RefusesWhatCannotBeShared) {
  const auto refused = [](const nlohmann::json& request) -> std::string {
    try {
      static_cast<void>(product_of(request));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused({{"n", 6}, {"ranks", 4}}),
            "tp_matmul: n is 6, which 4 ranks cannot share evenly; use 4 or 8");
  EXPECT_EQ(refused({{"ranks", 3}}), "tp_matmul: ranks is 3: expected 1, 2, 4 or 8");
  EXPECT_NE(refused({{"split", "heads"}, {"heads", 3}, {"ranks", 2}}), "");
}

}  // namespace
}  // namespace tessera

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/call.h"
#include "base/error.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

Json collective_of(const nlohmann::json& request) { return call("collective", request, {}); }

std::vector<double> values_at(const Json& rows, size_t rank) {
  std::vector<double> values;
  for (const Json& cell : rows[rank]) {
    if (!cell.at("v").is_null()) values.push_back(cell.at("v").get<double>());
  }
  return values;
}

TEST(ShowCollectiveTest, TheRingOfFourIsTheOneOfTheTextbook) {
  const Json json = collective_of(nlohmann::json::object());
  EXPECT_EQ(json.at("algorithm"), "ring");
  EXPECT_EQ(json.at("steps").size(), 6U) << "2 (N-1)";
  EXPECT_TRUE(json.at("digits").get<bool>());
  EXPECT_EQ(values_at(json.at("before"), 2), (std::vector<double>{100, 200, 300, 400}));
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(values_at(json.at("after"), rank), (std::vector<double>{1111, 2222, 3333, 4444}));
  }
  EXPECT_TRUE(json.at("equal").get<bool>());
  EXPECT_EQ(json.at("sent_chunks"), Json({6, 6, 6, 6}));
  EXPECT_EQ(json.at("sent_formula").at("value"), 6);
  EXPECT_EQ(json.at("sent_formula").at("numbers"), "2 (4-1)/4 * 4");
  EXPECT_EQ(json.at("messages"), 24);
  EXPECT_EQ(json.at("steps")[0].at("phase"), "reduce-scatter");
  EXPECT_EQ(json.at("steps")[3].at("phase"), "all-gather");
  EXPECT_FALSE(json.contains("hang"));
  // A partial sum: what rank 1 has of chunk 3 after rank 0 sent its own.
  EXPECT_EQ(json.at("steps")[0].at("state")[1][3], Json({{"v", 44.0}, {"from", {0, 1}}}));
}

TEST(ShowCollectiveTest, TwoRanksWithTwoNumbers) {
  const nlohmann::json values = {{1, 2}, {3, 4}};
  const auto asked = [&](const std::string& op) {
    return collective_of({{"op", op}, {"ranks", 2}, {"values", values}});
  };
  const Json gathered = asked("all_gather"), reduced = asked("all_reduce");
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(values_at(gathered.at("after"), rank), (std::vector<double>{1, 2, 3, 4}));
    EXPECT_EQ(values_at(reduced.at("after"), rank), (std::vector<double>{4, 6}));
  }
  EXPECT_FALSE(reduced.at("digits").get<bool>());
}

// all_reduce = reduce_scatter + all_gather, in what each rank sends.
TEST(ShowCollectiveTest, AnAllReduceSendsWhatItsTwoHalvesSend) {
  for (const int ranks : {2, 4, 8, 16}) {
    const auto sent = [&](const std::string& op) {
      const Json json = collective_of({{"op", op}, {"ranks", ranks}});
      EXPECT_TRUE(json.at("equal").get<bool>()) << op;
      return json.at("sent_formula").at("value").get<int>();
    };
    EXPECT_EQ(sent("reduce_scatter"), ranks - 1) << "M (N-1)/N of N chunks";
    EXPECT_EQ(sent("all_gather"), ranks - 1);
    EXPECT_EQ(sent("all_reduce"), 2 * (ranks - 1));
  }
}

TEST(ShowCollectiveTest, EveryOpAndAlgorithmIsShownAndRight) {
  for (const std::string op : {"broadcast", "scatter", "gather", "reduce", "all_gather",
                               "reduce_scatter", "all_reduce", "all_to_all"}) {
    const Json names = collective_of({{"op", op}}).at("algorithms");
    for (const Json& name : names) {
      for (const int ranks : {2, 5, 6}) {
        const Json json = collective_of(
            {{"op", op}, {"ranks", ranks}, {"algorithm", name.get<std::string>()}, {"root", 1}});
        EXPECT_TRUE(json.at("equal").get<bool>()) << op << name << ranks;
        const Json& sent = json.at("sent_chunks");
        EXPECT_EQ(std::max_element(sent.begin(), sent.end())->get<int>(),
                  json.at("sent_formula").at("value").get<int>())
            << op << name << ranks;
      }
    }
  }
}

TEST(ShowCollectiveTest, ALostRankIsAHang) {
  const Json json = collective_of({{"lost", 2}});
  EXPECT_EQ(json.at("hang").at("step"), 1);
  EXPECT_FALSE(json.at("equal").get<bool>());
  const std::string text = json.at("hang").at("text").get<std::string>();
  EXPECT_NE(text.find("rank 3 waits for rank 2"), std::string::npos) << text;
  const Json later = collective_of({{"lost", 2}, {"lost_step", 4}});
  EXPECT_EQ(later.at("hang").at("step"), 4);
}

std::string refused(const nlohmann::json& request) {
  try {
    static_cast<void>(collective_of(request));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ShowCollectiveTest, RefusesWhatCannotBe) {
  EXPECT_EQ(refused({{"op", "scatter"}, {"algorithm", "ring"}}),
            "collective: algorithm is \"ring\": expected one of direct, naive, tree for scatter");
  EXPECT_EQ(refused({{"root", 4}, {"op", "reduce"}}),
            "collective: root is 4: expected a rank from 0 to 3");
  EXPECT_EQ(refused({{"ranks", 2}, {"values", {{1, 2}, {3}}}}),
            "collective: values is [[1,2],[3]]: expected equally many numbers for each rank");
  EXPECT_EQ(refused({{"ranks", 17}}),
            "collective: ranks is 17: expected a whole number from 2 to 16");
  const nlohmann::json many = std::vector<std::vector<double>>(2, std::vector<double>(65, 1));
  EXPECT_NE(refused({{"op", "all_gather"}, {"ranks", 2}, {"values", many}})
                .find("the whole array has 130, and at most 128 are shown"),
            std::string::npos);
  EXPECT_NE(refused({{"op", "reduce_scatter"}, {"ranks", 2}, {"values", {{1}, {3}}}}), "");
}

}  // namespace
}  // namespace tessera

#include "api/show/topic.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "api/show/values.h"
#include "base/error.h"

namespace tessera {
namespace {

using Kind = ShowField::Kind;

const ShowTopic& topic_named(std::string_view name) {
  for (const ShowTopic& topic : show_topics()) {
    if (topic.name == name) return topic;
  }
  throw std::runtime_error(std::string(name));
}

TEST(ShowTopicTest, EveryAnswerSaysItsKind) {
  for (const std::string name : {"schedule", "collective", "numbers", "tp_matmul", "experts"}) {
    const auto json = show_json(topic_named(name), nlohmann::json::object(), {});
    EXPECT_EQ(json.begin().key(), "schema_version");
    EXPECT_EQ(json.at("kind"), name);
    EXPECT_TRUE(show_text(topic_named(name), nlohmann::json::object(), {}).ends_with('\n'));
  }
}

TEST(ShowTopicTest, FieldsAreSaidOnceAndExplained) {
  std::set<std::string_view> names;
  for (const ShowTopic& topic : show_topics()) {
    EXPECT_TRUE(names.insert(topic.name).second) << topic.name;
    EXPECT_TRUE(topic.summary.ends_with('.')) << topic.name;
    std::set<std::string_view> fields;
    for (const ShowField& field : topic.fields) {
      EXPECT_TRUE(fields.insert(field.name).second) << topic.name << " " << field.name;
      EXPECT_FALSE(field.help.empty()) << topic.name << " " << field.name;
      EXPECT_EQ(field.name.find('-'), std::string_view::npos) << "keys have underscores";
      EXPECT_EQ(field.kind == Kind::kChoice, !field.choices.empty()) << field.name;
    }
  }
}

// A topic with a field of each kind.
constexpr ShowField kFields[] = {
    {"count", Kind::kWhole, "8", "a count", 1, 100},
    {"share", Kind::kReal, "", "a share", 0, 1},
    {"list", Kind::kReals, "", "numbers", 0, 10},
    {"word", Kind::kText, "", "a word"},
    {.name = "choice", .kind = Kind::kChoice, .fallback = "a", .help = "one", .choices = "a|b"},
    {"truth", Kind::kTruth, "", "yes or no"},
    {"any", Kind::kJson, "", "anything"},
};
const ShowTopic kTopic = {"test", "A test.", "", kFields, nullptr, nullptr};

TEST(ShowValuesTest, DefaultsNumbersAndTextsThatSayThem) {
  const ShowValues defaults(kTopic, nlohmann::json::object());
  EXPECT_EQ(defaults.whole("count"), 8);
  EXPECT_FALSE(defaults.has("share"));
  EXPECT_FALSE(defaults.truth("truth"));
  EXPECT_TRUE(defaults.reals("list").empty());
  EXPECT_EQ(defaults.text("choice"), "a");
  for (const nlohmann::json& request : {nlohmann::json{{"count", 64},
                                                       {"share", 0.5},
                                                       {"list", {1, 2.5}},
                                                       {"truth", true},
                                                       {"any", {{1}, {2}}}},
                                        nlohmann::json{{"count", "64"},
                                                       {"share", "0.5"},
                                                       {"list", "1,2.5"},
                                                       {"truth", "true"},
                                                       {"any", "[[1],[2]]"}}}) {
    const ShowValues values(kTopic, request);
    EXPECT_EQ(values.number("count"), 64);
    EXPECT_EQ(values.real("share"), 0.5);
    EXPECT_EQ(values.reals("list"), (std::vector{1, 2.5}));
    EXPECT_TRUE(values.truth("truth"));
    EXPECT_EQ(values.json("any"), (nlohmann::json{{1}, {2}}));
    EXPECT_TRUE(values.was_given("count"));
    EXPECT_FALSE(values.was_given("choice"));
  }
}

TEST(ShowValuesTest, RefusesWithPlaceValueAndWhatIsExpected) {
  const auto refused = [](const nlohmann::json& request) -> std::string {
    try {
      ShowValues(kTopic, request);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused({{"count", 0}}), "test: count is 0: expected a whole number from 1 to 100");
  EXPECT_EQ(refused({{"count", 1.5}}), "test: count is 1.5: expected a whole number from 1 to 100");
  EXPECT_EQ(refused({{"share", "x"}}), "test: share is \"x\": expected a number from 0 to 1");
  EXPECT_EQ(refused({{"share", nullptr}}), "test: share is null: expected a number from 0 to 1");
  EXPECT_EQ(refused({{"list", {1, 11}}}),
            "test: list is [1,11]: expected a list of numbers, each from 0 to 10");
  EXPECT_EQ(refused({{"choice", "c"}}), "test: choice is \"c\": expected one of a, b");
  EXPECT_EQ(refused({{"truth", 1}}), "test: truth is 1: expected true or false");
  EXPECT_EQ(refused({{"any", "["}}), "test: any is \"[\": expected JSON");
  EXPECT_EQ(refused({{"word", 1}}), "test: word is 1: expected a text");
  EXPECT_EQ(refused({{"cuont", 1}}), "test: unknown key \"cuont\"; did you mean 'count'?");
  EXPECT_EQ(refused(nlohmann::json::array()),
            "test: the request is []: expected an object of keys and values");
}

}  // namespace
}  // namespace tessera

#include "api/show/choices.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/call.h"
#include "base/error.h"

namespace tessera {
namespace {

using nlohmann::json;

json with(json request, const std::string& key, const json& value) {
  request[key] = value;
  return request;
}

std::string refusal_of_plan(const json& request) {
  try {
    call("plan", request, {});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

json choices(const json& request) { return call("choices", request, {}); }

std::string why_not(const json& answer, const std::string& name, int64_t value) {
  for (const json& one : answer.at("refused").at(name)) {
    if (one.at("value") == value) return one.at("why");
  }
  return "";
}

// Every accepted value is one that plan accepts, every refused one is not.
void expect_plan_agrees(const json& request, const std::vector<std::string>& names) {
  const json answer = choices(request);
  ASSERT_EQ(answer.at("nearest"), json::object());
  for (const std::string& name : names) {
    for (const json& value : answer.at(name)) {
      EXPECT_EQ(refusal_of_plan(with(request, name, value)), "") << name << value << request;
    }
    for (const json& one : answer.at("refused").at(name)) {
      EXPECT_NE(refusal_of_plan(with(request, name, one.at("value"))), "")
          << name << one << request;
    }
  }
  for (const auto& [key, name] :
       std::map<std::string, std::string>{{"schedules", "schedule"}, {"recompute", "recompute"}}) {
    for (const json& one : answer.at(key)) {
      EXPECT_EQ(refusal_of_plan(with(request, name, one.at("name"))) == "", one.at("ok"))
          << one << request << refusal_of_plan(with(request, name, one.at("name")));
    }
  }
}

TEST(ChoicesTest, PlanAcceptsAllOfThemAndNoOthers) {
  expect_plan_agrees({{"model", "gpt2"},
                      {"cluster", "a100-96"},
                      {"pp", 2},
                      {"zero", 1},
                      {"set", {"model.layers=4"}}},
                     {"tp", "pp", "cp"});
  expect_plan_agrees({{"model", "mixtral-8x7b"},
                      {"cluster", "h100-128"},
                      {"tp", 2},
                      {"pp", 2},
                      {"zero", 1},
                      {"ep", 4},
                      {"set", {"model.layers=4"}}},
                     {"ep"});
}

TEST(ChoicesTest, ReasonsAreThoseOfTheValidator) {
  const json answer =
      choices({{"model", "llama-3-405b"}, {"cluster", "h100-16384"}, {"pp", 16}, {"zero", 1}});
  EXPECT_EQ(answer.at("tp"), (json{1, 2, 4, 8, 16, 32, 64, 128}));
  EXPECT_EQ(why_not(answer, "tp", 6),
            "parallel.tp = 6 does not divide heads = 128; use tp = 4 or 8");
  for (const json& one : answer.at("refused").at("tp")) {
    if (one.at("value") != 6) continue;
    EXPECT_EQ(one.at("use"), (json{4, 8}));
  }
  EXPECT_NE(why_not(answer, "pp", 3).find("does not divide the 16384 devices"), std::string::npos);
}

TEST(ChoicesTest, WhatIsRefusedIsSettledAtTheNearest) {
  const json answer = choices(
      {{"model", "llama-3-405b"}, {"cluster", "h100-16384"}, {"tp", 6}, {"pp", 16}, {"zero", 1}});
  EXPECT_EQ(answer.at("nearest").size(), 1U);
  EXPECT_EQ(answer.at("nearest").at("tp").at("said"), 6);
  EXPECT_EQ(answer.at("nearest").at("tp").at("use"), 4);
  EXPECT_EQ(answer.at("taken").at("tp"), 4);
  EXPECT_EQ(answer.at("taken").at("pp"), 16);
}

// A batch of one sequence leaves 32 replicas nothing, and no other batch was asked for.
TEST(ChoicesTest, WhatNoValueSettlesFollowsFromTheRest) {
  const json answer = choices({{"model", "tiny-3m"},
                               {"cluster", "h100-32"},
                               {"global_batch", 1},
                               {"seq_len", 256},
                               {"tp", 1},
                               {"virtual_stages", 4}});
  const json& batch = answer.at("nearest").at("global_batch");
  EXPECT_EQ(batch.at("said"), 1);
  EXPECT_EQ(batch.at("use"), 32);
  EXPECT_EQ(answer.at("taken").at("global_batch"), 32);
  EXPECT_EQ(answer.at("nearest").at("virtual_stages").at("use"), 1);
}

TEST(ChoicesTest, LargeClustersNeedNoSplitToBeSaid) {
  const json answer = choices({{"model", "llama-3-405b"}, {"cluster", "h100-16384"}});
  EXPECT_EQ(answer.at("nearest"), json::object());
  EXPECT_EQ(answer.at("tp").size(), 8U);
}

TEST(ChoicesTest, ARunWithoutAClusterIsRefused) {
  EXPECT_THROW(choices({{"model", "gpt2"}}), ConfigError);
  EXPECT_THROW(choices({{"cluster", "h100-8"}}), ConfigError);
}

}  // namespace
}  // namespace tessera

#include "api/call.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tessera {
namespace {

using nlohmann::json;

std::string refusal(std::string_view method, const json& request) {
  try {
    static_cast<void>(call(method, request, {}));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ApiCallTest, UnknownMethodsAreRefusedWithTheNearest) {
  EXPECT_EQ(refusal("serch", json::object()), "unknown method \"serch\"; did you mean 'search'?");
  EXPECT_TRUE(refusal("", json::object()).starts_with("unknown method \"\"; known methods: plan"));
}

TEST(ApiCallTest, UnknownKeysAreRefusedByEveryMethod) {
  for (const Method& method : methods()) {
    const std::string text = refusal(method.name, {{"no_such_key", 1}});
    EXPECT_NE(text.find("unknown key \"no_such_key\""), std::string::npos) << method.name << text;
  }
  EXPECT_EQ(refusal("plan", {{"tensor_parallel", 8}}),
            "plan: unknown key \"tensor_parallel\"; here it is tp");
  EXPECT_EQ(refusal("plan", {{"learning_rate", 1}}),
            "plan: unknown key \"learning_rate\"; here it is set = [\"optimizer.lr=…\"]");
  EXPECT_EQ(refusal("search", {{"modle", "gpt2"}}),
            "search: unknown key \"modle\"; did you mean 'model'?");
  EXPECT_EQ(refusal("plan", {{"virtual-stages", 2}}),
            "plan: unknown key \"virtual-stages\"; did you mean 'virtual_stages'?");
  EXPECT_EQ(refusal("explain", {{"topic", "ring"}, {"given", {{"rank", 8}}}}),
            "explain ring: nothing is called \"rank\"; did you mean 'ranks'?");
}

TEST(ApiCallTest, ValuesOfAnotherTypeAreRefused) {
  EXPECT_EQ(refusal("plan", {{"tp", ""}}),
            "plan: tp is \"\": expected a whole number, such as 8 or \"8k\"");
  EXPECT_EQ(refusal("plan", {{"tp", 1.5}}),
            "plan: tp is 1.5: expected a whole number, such as 8 or \"8k\"");
  EXPECT_EQ(refusal("search", {{"top", uint64_t{1} << 63}}),
            "search: top is 9223372036854775808: expected a whole number of at least 1");
  EXPECT_EQ(refusal("search", {{"model", 8}}), "search: model is 8: expected a text");
  EXPECT_EQ(refusal("search", {{"pareto", 1}}), "search: pareto is 1: expected true or false");
  EXPECT_EQ(refusal("search", {{"usd_per_hour", -1}}),
            "search: usd_per_hour is -1: expected a number of at least 0");
  EXPECT_EQ(refusal("search", {{"objective", "fame"}}),
            "search: objective is \"fame\": expected one of time, memory, cost");
  EXPECT_EQ(refusal("simulate", {{"slow", "rank=0,factor=2"}}),
            "simulate: slow is \"rank=0,factor=2\": expected a list of texts");
  EXPECT_EQ(refusal("plan", {{"tokens", 1.5}}).substr(0, 38),
            "plan: tokens is 1.5: expected a whole ");
  EXPECT_EQ(refusal("explain", {{"topic", "ring"}, {"given", {{"ranks", true}}}}),
            "explain: given.ranks is of type boolean: expected a text or a number");
  EXPECT_EQ(refusal("presets", json::array()),
            "presets: the request is of type array: expected an object of keys");
  EXPECT_EQ(refusal("plan", {{"files", {{"a", 1}}}}),
            "files: \"a\" is of type number: expected its text");
}

TEST(ApiCallTest, FilesOfTheRequestComeFirst) {
  const json request = {{"topic", "memory"}, {"given", {{"model", "mine.toml"}}}};
  EXPECT_EQ(refusal("explain", request),
            "cannot open 'mine.toml': it is not among the request's files");
  json with_file = request;
  with_file["files"]["mine.toml"] = "extends = \"gpt2\"\n[model]\nlayers = 2\n";
  EXPECT_EQ(refusal("explain", with_file), "");
  Surroundings around;
  around.read = [](const std::string& path) { return "extends = \"no-" + path + "\"\n"; };
  EXPECT_THROW(call("explain", request, around), ConfigError);
  EXPECT_NO_THROW(call("explain", with_file, around));
}

TEST(ApiCallTest, APlanWithoutAdviceIsTheSameButForWhatTakesManyPlans) {
  json request = {{"model", "llama-2-7b"}, {"cluster", "h100-8"}, {"tp", 1}, {"pp", 1}, {"zero", 0},
                  {"global_batch", 8}};
  json with = call("plan", request, {});
  request["advice"] = false;
  json without = call("plan", request, {});
  EXPECT_EQ(with.at("fits"), false);
  EXPECT_GT(with.at("changes").size(), 0U);
  EXPECT_FALSE(without.contains("changes"));
  EXPECT_LT(without.at("guesses").size(), with.at("guesses").size());
  for (json* plan : {&with, &without}) {
    plan->erase("changes");
    plan->erase("guesses");
  }
  EXPECT_EQ(with, without);
}

TEST(ApiCallTest, ResponsesNeverThrow) {
  EXPECT_TRUE(respond("presets", "{", {}).starts_with(R"({"error":{"code":2,"message":"request)"));
  EXPECT_EQ(respond("presets", R"({"kind": 3})", {}),
            R"({"error":{"code":2,"message":"presets: kind is 3: expected a text"}})");
  const json good = json::parse(respond("presets", R"({"kind": "devices"})", {}));
  EXPECT_EQ(good.at("result").at("schema_version"), 1);
  EXPECT_GT(good.at("result").at("devices").size(), 10U);
  Surroundings broken;
  broken.read = [](const std::string&) -> std::string { throw std::runtime_error("it is gone"); };
  const json bug = json::parse(
      respond("explain", R"({"topic": "memory", "given": {"model": "x.toml"}})", broken));
  EXPECT_EQ(bug.at("error").at("code"), 1);
  EXPECT_NE(bug.dump().find("a bug in Tessera"), std::string::npos);
}

TEST(ApiCallTest, ProgressIsToldAndCanStopASearch) {
  int told = 0;
  Surroundings around;
  around.progress = [&](const SearchProgress&) { return ++told < 2; };
  const auto result = call("search",
                           {{"model", "llama-3-8b"},
                            {"cluster", "h100-64"},
                            {"global_batch", 64},
                            {"seq_len", 4096},
                            {"top", 1}},
                           around);
  EXPECT_EQ(told, 2);
  EXPECT_EQ(result.at("schema_version"), 2);
  EXPECT_EQ(result.at("kind"), "search");
}

}  // namespace
}  // namespace tessera

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "requests/random_request.h"
#include "requests/random_text.h"

namespace tessera::testing {
namespace {

using nlohmann::json;

// One made-up run; other requests change any of it.
json usual_entry() {
  return {{"id", "made-up-1"},
          {"source", "nowhere"},
          {"model",
           {{"name", "GPT"},
            {"layers", 24},
            {"hidden", 2304},
            {"ffn", 9216},
            {"heads", 24},
            {"kv_heads", 24},
            {"vocab", 50257},
            {"gated_mlp", false},
            {"moe", nullptr}}},
          {"hw", {{"gpu", "A100-80GB"}, {"gpus", 32}, {"gpus_per_node", 8}}},
          {"parallel",
           {{"tp", 1}, {"pp", 1}, {"dp", 32}, {"cp", 1}, {"ep", 1}, {"vp", 1}, {"zero", 1}}},
          {"batch", {{"micro", 16}, {"global", 512}, {"seq", 2048}}},
          {"opts", {{"recompute", "full"}, {"dtype", "fp16"}}},
          {"results", {{"tflops_per_gpu", 137}, {"step_time_s", 2.1}, {"memory_gb", 61.5}}}};
}

json nonsense(Dice& dice) {
  switch (dice.below(12)) {
    case 0:
      return 0;
    case 1:
      return -1;
    case 2:
      return int64_t{1'000'000'000'000'000'000};
    case 3:
      return 1e300;
    case 4:
      return "x";
    case 5:
      return nullptr;
    case 6:
      return json::array({1, "two"});
    case 7:
      return json::object();
    case 8:
      return true;
    case 9:
      return 1e-300;
    case 10:
      return "";
    default:
      return 1 + dice.below(64);
  }
}

// A key of the entry, or of one of its objects.
void spoil_key(json& entry, Dice& dice) {
  auto at = entry.begin();
  std::advance(at, dice.below(static_cast<int64_t>(entry.size())));
  if (at->is_object() && !at->empty() && !dice.one_in(6)) {
    auto inner = at->begin();
    std::advance(inner, dice.below(static_cast<int64_t>(at->size())));
    *inner = nonsense(dice);
  } else if (dice.one_in(3)) {
    entry.erase(at);
  } else {
    *at = nonsense(dice);
  }
}

}  // namespace

Request random_published(Dice& dice) {
  json file = {{"entries", json::array()}};
  for (int64_t more = dice.below(4); more > 0; --more) {
    json entry = usual_entry();
    for (int64_t wrong = dice.below(4); wrong > 0; --wrong) spoil_key(entry, dice);
    file["entries"].push_back(entry);
  }
  if (dice.one_in(12)) file["entries"] = nonsense(dice);
  if (dice.one_in(20)) file = nonsense(dice);
  Request request;
  request.words = {"bench", "published", "results.json"};
  if (dice.one_in(2)) request.words.emplace_back("--json");
  if (dice.one_in(2)) request.words.emplace_back("--entries");
  const std::string text = file.dump(1);
  request.files["results.json"] = dice.one_in(4) ? spoiled(text, dice) : text;
  return request;
}

}  // namespace tessera::testing

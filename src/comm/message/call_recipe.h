// What a rank does in a call, worked out once per shape of call: its schedule, and whom it tells
// about the call and hears from before it touches data.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "collective/schedule.h"

namespace tessera::message {

// In groups up to this size every rank hears from every other one before it touches anything.
constexpr int kSmallGroup = 8;

// Ranks are numbered within the group.
struct CallRecipe {
  CollectiveSchedule schedule;
  // In larger groups: everyone this rank sends data to, and the next rank, so that two ranks that
  // disagree always have neighbours between them that find out.
  std::vector<int> headers_to = {};
  std::vector<int> headers_from = {};
};

CallRecipe make_recipe(const ScheduleRequest& request);

// Keeps the recipes of one rank of one group.
class RecipeCache {
 public:
  // `request` always has the same ranks, rank and nodes. An all_to_all_v is worked out every time.
  std::shared_ptr<const CallRecipe> find(const ScheduleRequest& request);

 private:
  static constexpr size_t kMostRecipes = 256;

  struct Key {
    CollectiveOp op;
    Algorithm algorithm;
    bool in_place;
    int root;
    int64_t count;
    int64_t element_bytes;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  std::unordered_map<Key, std::shared_ptr<const CallRecipe>, KeyHash> recipes_;
};

}  // namespace tessera::message

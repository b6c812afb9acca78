#include "comm/message/call_recipe.h"

#include <algorithm>

#include "base/hash.h"

namespace tessera::message {
namespace {

void add_once(std::vector<int>& ranks, int rank) {
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
}

}  // namespace

CallRecipe make_recipe(const ScheduleRequest& request) {
  CallRecipe plan{.schedule = make_schedule(request)};
  for (const CollectiveStep& step : plan.schedule.steps) {
    if (step.action == StepAction::kSend) add_once(plan.headers_to, step.peer);
    if (step.action == StepAction::kReceive) add_once(plan.headers_from, step.peer);
  }
  if (request.op == CollectiveOp::kSend) {
    add_once(plan.headers_to, request.root);
  } else if (request.op == CollectiveOp::kReceive) {
    add_once(plan.headers_from, request.root);
  } else {
    // Everyone hears of an all_to_all_v, because everyone has counts to compare.
    const bool everyone = request.ranks <= kSmallGroup || request.op == CollectiveOp::kAllToAllV;
    const int reach = everyone ? request.ranks - 1 : 1;
    for (int distance = 1; distance <= reach; ++distance) {
      add_once(plan.headers_to, (request.rank + distance) % request.ranks);
      add_once(plan.headers_from, (request.rank - distance + request.ranks) % request.ranks);
    }
  }
  return plan;
}

size_t RecipeCache::KeyHash::operator()(const Key& key) const {
  Hasher hasher;
  hasher.add(static_cast<int>(key.op));
  hasher.add(static_cast<int>(key.algorithm));
  hasher.add(key.in_place);
  hasher.add(key.root);
  hasher.add(key.count);
  hasher.add(key.element_bytes);
  return hasher.value();
}

std::shared_ptr<const CallRecipe> RecipeCache::find(const ScheduleRequest& request) {
  if (request.op == CollectiveOp::kAllToAllV) {
    return std::make_shared<const CallRecipe>(make_recipe(request));
  }
  const Key key{request.op,   request.algorithm, request.in_place,
                request.root, request.count,     request.element_bytes};
  const auto known = recipes_.find(key);
  if (known != recipes_.end()) return known->second;
  if (recipes_.size() >= kMostRecipes) recipes_.clear();  // calls in flight keep theirs
  return recipes_[key] = std::make_shared<const CallRecipe>(make_recipe(request));
}

}  // namespace tessera::message

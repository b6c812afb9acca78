// Published recipes in requests: "recipe" is the name of one, or a file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/split.h"
#include "plan/plan.h"
#include "spec/catalogue/recipe_catalogue.h"

namespace tessera {

// Puts the recipe of `split`, where there is one, under its flags, and its cluster where `cluster`
// names none. What the recipe leaves open or has otherwise is added to `guesses`.
void use_recipe(SplitFlags& split, std::string& cluster, const RunSource& source,
                const FileReader& read, std::vector<Guess>& guesses);

// The value of a key that a recipe sets ("train.seq_len"); empty: it does not.
std::string setting_of(const Recipe& recipe, std::string_view key);

// What was published of the recipe, beside the plan; "" without a recipe.
std::string recipe_text(const SplitFlags& split, const Plan& plan, const FileReader& read);
// plan_json(), with "recipe" where there is one.
nlohmann::ordered_json plan_document(const SplitFlags& split, const Plan& plan,
                                     const FileReader& read);

// All recipes, or one of them with its settings.
std::string recipes_text(const std::string& name);
nlohmann::ordered_json recipes_json(const std::string& name);

}  // namespace tessera

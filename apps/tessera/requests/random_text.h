// Files as people spoil them, and worse.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "requests/dice.h"

namespace tessera::testing {

// Cut short, lines doubled, left out or swapped, values of other types and sizes, keys misspelt,
// deep nesting, bytes that are no text: one to three of these.
std::string spoiled(std::string text, Dice& dice);

// A value after "key = " that hardly any key takes.
std::string nonsense_toml(Dice& dice);

// A run file of a small model; mostly one that can be run.
std::string random_run_file(Dice& dice);

// Files of one model and of one cluster with keys of all kinds; mostly they make sense. They may
// extend entries of the catalogue, each other and themselves.
std::string random_model_file(Dice& dice);
std::string random_cluster_file(Dice& dice);

}  // namespace tessera::testing

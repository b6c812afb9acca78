// Patterns of tensor names, as run files have them: "*.bias, model.embed_tokens.weight". A star
// stands for any text. Blocks of a model are alike: where a name has the number of its block, a
// pattern is held to the name with a star in that place, so that it is of all blocks or of none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// The patterns of `text`, which commas separate. Throws ConfigError that names `key` where one is
// empty.
std::vector<std::string> name_patterns(std::string_view key, std::string_view text);

bool matches_pattern(std::string_view pattern, std::string_view text);

// "model.layers.3.mlp.up_proj.weight" as "model.layers.*.mlp.up_proj.weight".
std::string without_block(std::string_view name);

}  // namespace tessera

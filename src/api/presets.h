// The request "presets": the models, devices, clusters, engines or recipes that are known by name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera {

inline constexpr const char* kPresetKinds = "models|devices|clusters|engines|recipes";

struct PresetsQuery {
  std::string kind = "models";  // one of kPresetKinds
  std::string name = "";        // of recipes: only this one, with its settings
};
PresetsQuery presets_query(const nlohmann::json& request);

std::string presets_text(const PresetsQuery& query);
nlohmann::ordered_json presets_json(const PresetsQuery& query);

}  // namespace tessera

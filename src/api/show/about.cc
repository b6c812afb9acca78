#include "api/show/about.h"

#include <array>
#include <nlohmann/json.hpp>

#include "api/show/values.h"
#include "base/embedded.h"
#include "base/hash.h"
#include "plan/report/plan_json.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Shelf {
  std::string_view name;
  std::span<const EmbeddedFile> (*files)();
};
constexpr std::array kShelves = {
    Shelf{"models", embedded_models}, Shelf{"devices", embedded_devices},
    Shelf{"clusters", embedded_clusters}, Shelf{"engines", embedded_engines},
    Shelf{"recipes", embedded_recipes}};

Json about_json(const ShowValues&, const Surroundings&) {
  Json catalogue = Json::object();
  Hasher hasher;
  for (const Shelf& shelf : kShelves) {
    catalogue[std::string(shelf.name)] = shelf.files().size();
    for (const EmbeddedFile& file : shelf.files()) {
      hasher.add(file.name);
      hasher.add(file.text);
    }
  }
  catalogue["hash"] = hex(hasher.value());
  return {{"version", TESSERA_VERSION},
          {"plan_schema_version", kPlanSchemaVersion},
          {"catalogue", std::move(catalogue)}};
}

std::string about_text(const ShowValues& values, const Surroundings& around) {
  const Json json = about_json(values, around);
  const Json& catalogue = json.at("catalogue");
  std::string text = fmt::format("tessera {}\ncatalogue {}\n", TESSERA_VERSION,
                                 catalogue.at("hash").get<std::string>());
  for (const Shelf& shelf : kShelves) {
    text += fmt::format("  {:<9} {}\n", shelf.name, shelf.files().size());
  }
  return text;
}

}  // namespace

ShowTopic about_topic() {
  return {"about",    "Which Tessera this is, and what its catalogue has.",
          "",         {},
          about_json, for_terminals(about_text)};
}

}  // namespace tessera

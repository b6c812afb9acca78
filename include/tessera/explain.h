// The formulas behind the numbers, and the catalogue of models, devices, clusters and engines.
#pragma once

#include <string>

#include "tessera/answer.h"

namespace tessera {

// As `tessera explain TOPIC --json`: {"formula", "result", …} for what is given, such as
// explain("ring", {{"bytes", "140GB"}, {"ranks", 32}}).
Json explain(const std::string& topic, const Json& given = Json::object());

// As `tessera presets KIND --json`: models, devices, clusters or engines.
Json presets(const std::string& kind);

}  // namespace tessera

// One door to everything that is answered without running anything: plans, searches, simulations,
// calculators and catalogues, JSON in and JSON out. `tessera METHOD --json` prints the same bytes
// (docs/api.md). Pure: what comes from outside is in the Surroundings, and the same request gives
// the same answer.
//
//   call("explain", {{"topic", "ring"}, {"given", {{"ranks", 8}}}}, {});
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "api/surroundings.h"

namespace tessera {

struct Method {
  std::string_view name;
  std::function<nlohmann::ordered_json(const nlohmann::json& request, const Surroundings& around)>
      answer;
};
// Those of this folder, and one for each topic of api/show.
std::span<const Method> methods();

// A request is an object: the keys of its method (docs/api.md), and "files", texts by path, which
// are looked at before around.read is asked. Throws ConfigError for an unknown method, an unknown
// key (with the nearest one), a value of another type, and for what cannot be answered.
nlohmann::ordered_json call(std::string_view method, const nlohmann::json& request,
                            const Surroundings& around);

// For those who answer a request by other means: takes "files" out of it, an object, and gives the
// surroundings in which they are found first. ConfigError where they are not texts.
Surroundings take_files_of(nlohmann::json& request, const Surroundings& around);

// The same for callers that know no exceptions: text in, text out. {"result": ...}, or
// {"error": {"code": 2, "message": "..."}} with the exit code that the command would have.
std::string respond(std::string_view method, std::string_view request, const Surroundings& around);

}  // namespace tessera

// What a run says at its end beside its tables: how good it is on held-out data, that its time was
// up, which rank was slow.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera {

// From summary.json; lines that end with '\n', none where there is nothing to say.
std::string run_remarks(const nlohmann::ordered_json& summary);

}  // namespace tessera

// What a server says of its plan before it listens.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "serve/start/start_model.h"

namespace tessera {

// Lines for people: model, mesh, cache, memory.
std::string summary_text(const serve::StartOptions& start, const serve::StartedModel& model);

// The same for programs, with the address.
nlohmann::ordered_json summary_json(const serve::StartOptions& start,
                                    const serve::StartedModel& model, const std::string& url);

}  // namespace tessera

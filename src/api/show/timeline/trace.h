// The request "trace": a simulated step as a trace that ui.perfetto.dev opens, the same as
// `simulate --trace` writes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/show/topic.h"
#include "api/simulate.h"
#include "api/surroundings.h"

namespace tessera {

SimulateQuery trace_query(const nlohmann::json& request);

// Throws ConfigError for steps that are too large to play by instructions, or to open.
std::string trace_text(const SimulateQuery& query, const Surroundings& around);

ShowTopic trace_topic();

}  // namespace tessera

// The request "choices": which values of a split a plan accepts, each by itself beside what was
// said of the others, and why not the ones between them. Every value is tried: the reasons are
// those that "plan" would give.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/plan.h"
#include "api/show/topic.h"
#include "api/surroundings.h"

namespace tessera {

// ConfigError where there is no model or no cluster, and where no split is accepted at all.
nlohmann::ordered_json choices_json(const PlanQuery& query, const Surroundings& around);
std::string choices_text(const PlanQuery& query, const Surroundings& around);

ShowTopic choices_topic();

}  // namespace tessera

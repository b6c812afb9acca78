// The request "timeline": a simulated step as marks over time, one rank of each class, equal to
// what "simulate" says of it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/show/topic.h"
#include "api/simulate.h"
#include "api/surroundings.h"

namespace tessera {

inline constexpr const char* kSimulatedBy = "stages|instructions";
inline constexpr const char* kMarkDetails = "instructions|passes";

struct TimelineQuery {
  SimulateQuery run = {};
  std::string by = "";          // one of kSimulatedBy; empty: as "simulate" does
  std::string detail = "";      // one of kMarkDetails; empty: instructions where they are few
  int64_t most_marks = 50'000;  // neighbours are joined until there are no more
};
TimelineQuery timeline_query(const nlohmann::json& request);

// Throws ConfigError for what cannot be simulated as asked, and for more marks than `most_marks`
// that joining does not help.
nlohmann::ordered_json timeline_json(const TimelineQuery& query, const Surroundings& around);
// What "simulate" prints of the same run, and how many marks there are.
std::string timeline_text(const TimelineQuery& query, const Surroundings& around);

ShowTopic timeline_topic();

}  // namespace tessera

#include "api/show/topic.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "api/schema.h"
#include "api/show/about.h"
#include "api/show/choices.h"
#include "api/show/collective.h"
#include "api/show/numbers.h"
#include "api/show/parallel/experts.h"
#include "api/show/parallel/grid.h"
#include "api/show/parallel/placements.h"
#include "api/show/parallel/topology.h"
#include "api/show/parallel/tp_matmul.h"
#include "api/show/program.h"
#include "api/show/schedule.h"
#include "api/show/serving.h"
#include "api/show/timeline/timeline.h"
#include "api/show/timeline/trace.h"
#include "api/show/values.h"
#include "base/error.h"

namespace tessera {

std::span<const ShowTopic> show_topics() {
  static const std::vector<ShowTopic> topics = {
      schedule_topic(),    //
      collective_topic(),  //
      numbers_topic(),     //
      tp_matmul_topic(),   //
      experts_topic(),     //
      timeline_topic(),    //
      choices_topic(),     //
      topology_topic(),    //
      program_topic(),     //
      placements_topic(),  //
      about_topic(),       //
      trace_topic(),       //
      mesh_grid_topic(),   //
      serving_topic(),     //
  };
  return topics;
}

nlohmann::ordered_json show_json(const ShowTopic& topic, const nlohmann::json& request,
                                 const Surroundings& around) {
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}, {"kind", topic.name}};
  json.update(topic.json(ShowValues(topic, request), around));
  return json;
}

std::string show_text(const ShowTopic& topic, const nlohmann::json& request,
                      const Surroundings& around) {
  TESSERA_CHECK(topic.text != nullptr, "this build has no text of {}", topic.name);
  return topic.text(ShowValues(topic, request), around);
}

}  // namespace tessera

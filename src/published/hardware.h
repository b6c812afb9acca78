// From how papers write hardware down to a cluster of the catalogue.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cost/hardware/cluster.h"
#include "cost/step/estimate.h"

namespace tessera {

// `hw` has gpu, gpus_per_node and interconnect as published, any of them may be null. The device's
// name decides on the entry; what the text says of links replaces the entry's numbers. Throws
// ConfigError for a device that the catalogue does not have.
Cluster cluster_of_text(const nlohmann::json& hw, int64_t devices,
                        const std::function<Cluster(const std::string&)>& find,
                        std::vector<Guess>& guesses);

}  // namespace tessera

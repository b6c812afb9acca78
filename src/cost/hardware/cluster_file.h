// Cluster files that `tessera calibrate` writes: catalogue.h reads them back. docs/clusters.md and
// docs/calibrate.md describe them. Pure.
#pragma once

#include <string>

#include "base/text/toml.h"
#include "cost/hardware/cluster.h"

namespace tessera {

// Numbers are written with as many digits as it takes to read the same ones back.
std::string to_toml(const Cluster& cluster);

// The table [measured] of the file; errors point to its place.
MeasuredMachine read_measured(const toml::table& table, const std::string& file_name);

}  // namespace tessera

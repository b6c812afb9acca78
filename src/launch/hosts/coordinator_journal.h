// The state of a coordinator on disk, so that another one can go on after it: a small file of JSON
// in the run directory, replaced as a whole.
#pragma once

#include <optional>
#include <string>

#include "launch/hosts/coordinator.h"

namespace tessera {

inline constexpr const char* kHostsFile = "hosts.json";  // in the run directory

// None: there is no such file. Throws Error with ExitCode::kCorrupt where it cannot be read.
std::optional<CoordinatorState> read_coordinator_state(const std::string& path);

// On disk when it returns. Throws IoError.
void write_coordinator_state(const std::string& path, const CoordinatorState& state);

}  // namespace tessera

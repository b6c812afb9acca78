// A random request with the answers that it must get, as one line of JSON: for what answers
// requests outside of this program (wasm/parity.mjs).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "requests/answer.h"
#include "requests/as_call.h"

namespace tessera::testing {

// {"method": ..., "request": TEXT, "answer": TEXT, "code": ..., "printed": TEXT}: what respond()
// (api/call.h) gives where there is neither a file nor a machine, and the exit code and output of
// the command. The last two are left out where the command takes something from its machine.
// Nothing for what is no call. Throws std::runtime_error where command and call disagree.
std::optional<nlohmann::ordered_json> call_line(const Request& request, const Workplace& workplace);

}  // namespace tessera::testing

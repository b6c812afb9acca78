// Command lines as requests to `call` (api/call.h), for tests that both give the same answer.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "requests/random_request.h"

namespace tessera::testing {

struct Call {
  std::string method;
  nlohmann::json request;
};

// Nothing for commands that are no method, and for flags that only the command line has: those that
// write a file or print something else.
std::optional<Call> as_call(const Request& request);

// The same command with --json.
Request with_json(Request request);

// The call of with_json(request) with the texts of its files. Nothing where one of them, or a word,
// is not UTF-8: JSON cannot say it.
std::optional<Call> as_whole_call(const Request& request);

}  // namespace tessera::testing

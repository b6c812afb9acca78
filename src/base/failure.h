// What a failure says to the user, and which exit code it has.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace tessera {

struct Failure {
  std::string text;  // one line
  ExitCode code = ExitCode::kFailed;
};

// Anything but Error and exhausted memory is called a bug.
Failure failure_of(const std::exception& error);

}  // namespace tessera

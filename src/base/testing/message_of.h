// For tests: what a call that must fail says.
#pragma once

#include <string>

#include "base/error.h"

namespace tessera::testing {

// The text of the Exception that `call` throws, or "no error". Other exceptions pass.
template <typename Exception = ConfigError, typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tessera::testing

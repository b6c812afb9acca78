#include "base/failure.h"

#include <new>

namespace tessera {

Failure failure_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return {known->what(), known->code()};
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {"out of memory: use a smaller model, batch or more ranks", ExitCode::kFailed};
  }
  return {fmt::format("{}; this is a bug in Tessera", error.what()), ExitCode::kFailed};
}

}  // namespace tessera

// What the library's functions get from the process that they are called in, and how failures leave
// them.
#pragma once

#include <exception>
#include <string>

#include "api/surroundings.h"
#include "base/failure.h"
#include "library/public.h"

namespace tessera::library {

// Files by path, this machine, its cores; reads the environment once, for where GPU libraries are.
Surroundings surroundings();

// Whatever `work` throws leaves as Refusal, with the words and the exit code of the command line.
template <typename Work>
auto refusing(const Work& work) {
  try {
    return work();
  } catch (const Refusal&) {
    throw;  // of a callback that asked the library again
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    throw Refusal(failure.text, static_cast<int>(failure.code));
  }
}

}  // namespace tessera::library

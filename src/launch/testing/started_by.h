// For tests: what a rank finds that a launcher started.
#pragma once

#include "launch/environment.h"

namespace tessera::testing {

inline LaunchContext started_by(Launcher launcher, int size) {
  LaunchContext context;
  context.launcher = launcher;
  context.size = size;
  return context;
}

}  // namespace tessera::testing

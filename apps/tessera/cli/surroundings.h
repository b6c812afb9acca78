// What requests get from the outside on the command line: files by path, this machine, its cores.
#pragma once

#include "api/surroundings.h"

namespace tessera {

Surroundings console_surroundings();

}  // namespace tessera

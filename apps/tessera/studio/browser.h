// What shows a link: a browser of this machine.
#pragma once

#include <string>

#include "launch/environment.h"

namespace tessera {

// Has xdg-open show `link`, without waiting for it. False: there is none in PATH.
bool open_in_browser(const std::string& link, const Environment& environment);

}  // namespace tessera

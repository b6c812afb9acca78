// What a link needs of this machine: its name, and a browser.
#pragma once

#include <string>

#include "launch/environment.h"

namespace tessera {

std::string host_name();

// Has xdg-open show `link`, without waiting for it. False: there is none in PATH.
bool open_in_browser(const std::string& link, const Environment& environment);

}  // namespace tessera

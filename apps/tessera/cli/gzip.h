// Text in the format of gzip, which Perfetto and most readers of traces open as it is.
#pragma once

#include <string>

namespace tessera {

// The same text gives the same bytes: no time and no name are stored.
std::string gzip(const std::string& text);

}  // namespace tessera

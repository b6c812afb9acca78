// Text in the format of gzip, which Perfetto and most readers of traces open as it is.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// The same text gives the same bytes: no time and no name are stored.
std::string gzip(const std::string& text);

// What was compressed. Throws Error where it is damaged, cut off, or more than `most` bytes.
std::string gunzip(std::string_view bytes, size_t most);

}  // namespace tessera

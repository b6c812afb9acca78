// The threads of a search: results go to places of their own, so who worked on what shows nowhere.
// A build without threads takes absent/in_parallel.cc, which does one after the other.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera {

// Runs body(index, thread) for all indices below `count`, on `threads` threads, the calling one
// among them. Rethrows the first exception.
void in_parallel(size_t count, int threads,
                 const std::function<void(size_t index, size_t thread)>& body);

}  // namespace tessera

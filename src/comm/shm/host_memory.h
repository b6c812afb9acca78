// How much memory this process may still take: of the machine, and of its control group.
#pragma once

#include <cstdint>

namespace tessera {

int64_t available_memory_bytes();
int64_t total_memory_bytes();

}  // namespace tessera

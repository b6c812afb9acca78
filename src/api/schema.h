// The number that every JSON document begins with.
#pragma once

namespace tessera {

// The shape of all of them but plans, which have a number of their own.
inline constexpr int kSchemaVersion = 1;

}  // namespace tessera
